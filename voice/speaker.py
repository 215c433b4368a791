"""Where speech goes: a sound card, a recording, or both. Whatever it is, ``play`` keeps the pace of real time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from voice.settings import WAV_PREFIX, VoiceSettings
from voice.sound import Sound

T = TypeVar("T")

PART = "speaker"
RATE_HZ = 22_050  # of Piper's medium voices; only a card's willingness depends on it here
PIECE_S = 0.1  # how long one piece sounds: speech is cut within one of them


class Output(Protocol):
    """One place for sound, with one owner, the mouth."""

    name: str

    def fit(self, sound: Sound) -> Sound:
        """Return a sentence at the rate of the device, which is opened for that.

        Raises:
            Unavailable: no such device now.
        """
        ...

    def play(self, piece: Sound) -> None:
        """Hand a piece over; returns when the next piece should come, so that what was handed over sounds without a gap.

        Raises:
            Unavailable: the device is gone.
        """
        ...

    def drain(self) -> None:
        """Return when everything handed over has been played."""
        ...

    def cut(self) -> None:
        """Throw away what has not been played yet."""
        ...

    def close(self) -> None:
        """Give the device back; it is opened again by the next ``play``."""
        ...


class Speaker:
    """The configured outputs as one. A card that is not there is named by ``report`` and the recording goes on without it."""

    def __init__(self, card: Output | None, recording: Output | None, report: Callable[[str, str], None]) -> None:
        self._card = card
        self._recording = recording
        self._report = report
        self._has_card = card is not None

    @property
    def is_whole(self) -> bool:
        """Whether the card, if one is configured, was there when it was last needed."""
        return self._has_card or self._card is None

    def probe(self) -> None:
        """Open the card if it is not open. Asking for devices can take a second, which no alarm should wait for: call this while
        there is nothing to say, at the start and now and then while the card is missing."""
        if self._card is not None:
            self._has_card = True
            try:
                self._card.fit(Sound(b"", RATE_HZ))
            except Unavailable as error:
                self._has_card = False
                self._report(PART, error.message)
            else:
                self._report(PART, "")

    @property
    def name(self) -> str:
        """What it plays on."""
        return " and ".join(output.name for output in (self._card, self._recording) if output is not None) or "none"

    def begin(self) -> None:
        """Start a delivery. A card that was missing is tried again only if there is no recording to speak to meanwhile.

        Raises:
            Refused: this appliance is configured not to speak.
        """
        if self._card is None and self._recording is None:
            raise Refused("this appliance has no loudspeaker configured")
        if self._recording is None:
            self._has_card = True

    def play(self, sound: Sound) -> Iterator[None]:
        """Play a sentence on every output, piece by piece: hands control back after each, so that it can be broken off.

        Raises:
            Unavailable: there is no card now, and no recording either.
        """
        fitted = {}
        for output in self._live():
            if (own := self._try(output, partial(output.fit, sound))) is not None:
                fitted[output] = own
        pieces = -(-len(sound.pcm) // (2 * int(PIECE_S * sound.rate_hz)))
        for n in range(pieces):
            for output, own in fitted.items():
                if output in self._live():
                    size = int(PIECE_S * own.rate_hz) * 2
                    end = len(own.pcm) if n == pieces - 1 else (n + 1) * size
                    self._try(output, partial(output.play, Sound(own.pcm[n * size : end], own.rate_hz)))
            yield

    def _try(self, output: Output, do: Callable[[], T]) -> T | None:
        """Do something with an output. A card that is gone is left out until the next delivery, if there is a recording."""
        try:
            done = do()
        except Unavailable as error:
            self._report(PART, error.message)
            if output is not self._card or self._recording is None:
                raise
            self._has_card = False
            return None
        if output is self._card:
            self._report(PART, "")
        return done

    def drain(self) -> None:
        """Return when the last sample was played."""
        for output in self._live():
            output.drain()

    def cut(self) -> None:
        """Fall silent at once."""
        for output in self._live():
            output.cut()

    def close(self) -> None:
        """Give the devices back."""
        for output in (self._card, self._recording):
            if output is not None:
                output.close()

    def _live(self) -> list[Output]:
        card = self._card if self._has_card else None
        return [output for output in (card, self._recording) if output is not None]


def choose_speaker(settings: VoiceSettings, clock: Clock, report: Callable[[str, str], None]) -> Speaker:
    """Return the speaker of the settings."""
    from voice.wav_speaker import WavSpeaker

    limit_bytes = settings.record_limit_mb * 1_000_000
    card: Output | None = None
    file = settings.record_to
    if settings.speaker.startswith(WAV_PREFIX):
        file = Path(settings.speaker.removeprefix(WAV_PREFIX))
    elif settings.speaker != "none":
        from voice.card_speaker import CardSpeaker

        card = CardSpeaker(settings.speaker)
    return Speaker(card, WavSpeaker(file, clock, limit_bytes=limit_bytes) if file is not None else None, report)
