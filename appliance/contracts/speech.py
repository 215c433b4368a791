"""Words between the core and the voice process.

The wire is Wyoming (one JSON line, optional data and payload) over a Unix socket; the voice process is the server.
Standard Wyoming types are used where one exists: ``describe``/``info``, ``ping``/``pong``, ``run-satellite``, ``detection``,
``voice-started``, ``voice-stopped``, ``transcript``, ``synthesize``, ``played``, ``error``. Ours, prefixed ``floorhand-``:
``floorhand-grammar``, ``floorhand-prepare``, ``floorhand-expect``, ``floorhand-first-audio``, ``floorhand-listen``,
``floorhand-stop``.

All times on this wire are CLOCK_MONOTONIC ns, which all processes of one boot share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SAMPLE_RATE_HZ = 16_000
FRAME_MS = 20
FRAME_BYTES = SAMPLE_RATE_HZ * FRAME_MS // 1000 * 2  # s16le mono


@dataclass(frozen=True, slots=True)
class Grammar:
    """What can be said, compiled from the phrase templates.

    ``jsgf`` is a complete JSGF V1.0 grammar whose public rule is ``<command>``; every terminal is lower case.
    ``confirm_jsgf`` holds only the answers to a yes/no question. ``words`` are all terminals of both.
    ``sentences`` samples the language (at most 4,000) for recognisers that take a phrase list.
    """

    language: str
    jsgf: str
    confirm_jsgf: str
    words: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Utterance:
    """What was heard. ``text`` is the hypothesis inside the grammar, lower case, empty when nothing fits."""

    id: str
    text: str
    language: str
    engine: str
    confidence: float | None
    wake_mono_ns: int
    speech_ended_mono_ns: int
    transcribed_mono_ns: int
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpeechReceipt:
    """The speaker's word on one delivery: first frame and last frame handed to the device."""

    delivery_id: str
    first_audio_mono_ns: int
    finished_mono_ns: int
