"""PortAudio: the one place that imports it, finds devices by name and refreshes its list.

PortAudio reads the devices once, when it is initialised. A microphone that was unplugged and plugged in again is only seen after
it is initialised anew, which needs every stream closed. Both owners of streams register here for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

from appliance.contracts.errors import Unavailable

Direction = Literal["input", "output"]

_lock = threading.RLock()
_suspend: dict[Direction, Callable[[], bool]] = {}


def library() -> Any:
    """Return the sounddevice module.

    Raises:
        Unavailable: PortAudio is not installed; the cure is named.
    """
    try:
        import sounddevice
    except OSError as error:
        raise Unavailable(f"{error}: install libportaudio2", retry_after_s=30.0) from error
    return sounddevice


def register(direction: Direction, suspend: Callable[[], bool]) -> None:
    """``suspend`` closes the stream of this direction if it is not in use, and returns whether it is closed."""
    _suspend[direction] = suspend


def refresh() -> None:
    """Read the list of devices anew, unless a stream is in use."""
    sounddevice = library()
    with _lock:
        if all(suspend() for suspend in _suspend.values()):
            sounddevice._terminate()
            sounddevice._initialize()


def find(direction: Direction, name: str) -> tuple[int, str, int]:
    """Return index, name and own sample rate of the device ``name`` (or a part of it), of the default one when empty.

    Raises:
        Unavailable: no such device now.
    """
    sounddevice = library()
    with _lock:
        try:
            device = sounddevice.query_devices(name or None, direction)
        except (sounddevice.PortAudioError, ValueError) as error:
            wanted = f"called “{name}”" if name else "of its own"
            kind = "microphone" if direction == "input" else "loudspeaker"
            raise Unavailable(f"no {kind} {wanted} on this machine ({error})") from error
    return int(device["index"]), str(device["name"]), int(device["default_samplerate"])


def open_stream(make: Callable[[Any], Any]) -> Any:
    """Return the started stream that ``make(sounddevice)`` makes.

    Raises:
        Unavailable: the device is in use, gone, or refuses the rate.
    """
    sounddevice = library()
    with _lock:
        try:
            stream = make(sounddevice)
            stream.start()
        except sounddevice.PortAudioError as error:
            raise Unavailable(f"the sound device cannot be opened: {error}") from error
    return stream


def close_stream(stream: Any) -> None:
    """Close it, also when its device is gone."""
    sounddevice = library()
    with _lock:
        try:
            stream.close(ignore_errors=True)
        except sounddevice.PortAudioError:
            return
