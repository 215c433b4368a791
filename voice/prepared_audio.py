"""Speech that is ready before it is needed, so that the first word of an alarm sounds at once. Bounded; kept in memory only."""

from __future__ import annotations

import threading
from collections import OrderedDict

from voice.sound import Sound

Key = tuple[str, str]  # language, sentence


class PreparedAudio:
    """The sounds used last, up to ``limit_bytes``. Used by two threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._sounds: OrderedDict[Key, Sound] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sounds)

    @property
    def size_bytes(self) -> int:
        """Sum of all samples kept."""
        return self._bytes

    def find(self, key: Key) -> Sound | None:
        """Return the sound and count it as used."""
        with self._lock:
            sound = self._sounds.get(key)
            if sound is not None:
                self._sounds.move_to_end(key)
            return sound

    def keep(self, key: Key, sound: Sound) -> None:
        """Keep a sound; what was not used for longest goes. One that is larger than the bound is not kept."""
        if len(sound.pcm) > self._limit_bytes:
            return
        with self._lock:
            if (known := self._sounds.pop(key, None)) is not None:
                self._bytes -= len(known.pcm)
            self._sounds[key] = sound
            self._bytes += len(sound.pcm)
            while self._bytes > self._limit_bytes:
                _, oldest = self._sounds.popitem(last=False)
                self._bytes -= len(oldest.pcm)
