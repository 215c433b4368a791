"""Where sound comes from. A sound card and a folder of recordings give the same frames at the same pace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from appliance.contracts.clock import Clock
from voice.frames import Frame
from voice.settings import WAV_PREFIX, VoiceSettings


class Microphone(Protocol):
    """A source of frames with one owner, the ear."""

    name: str

    def open(self) -> None:
        """Start.

        Raises:
            Unavailable: no such device now, or it is in use.
        """
        ...

    def read(self, timeout_s: float) -> Frame | None:
        """Return the next frame, or None when the device gave none in time."""
        ...

    def close(self) -> None:
        """Give the device back; may be opened again."""
        ...

    @property
    def dropped(self) -> int:
        """Frames that nobody was in time for."""
        ...


def choose_microphone(settings: VoiceSettings, clock: Clock, is_open: Callable[[int], bool]) -> Microphone:
    """Return the microphone of the settings. ``is_open`` tells whether a frame of that time would be heard."""
    if settings.microphone.startswith(WAV_PREFIX):
        from voice.spool_microphone import SpoolMicrophone

        return SpoolMicrophone(Path(settings.microphone.removeprefix(WAV_PREFIX)), clock, is_open)
    from voice.card_microphone import CardMicrophone

    return CardMicrophone(settings.microphone, clock)
