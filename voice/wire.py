"""Our events on the Wyoming wire: the same functions write and read them, so that both ends agree.

Only Wyoming's event codec is imported here, no audio and no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from wyoming.event import Event

from appliance.contracts.delivery import Delivery
from appliance.contracts.speech import Grammar, Utterance

GRAMMAR = "floorhand-grammar"
PREPARE = "floorhand-prepare"
EXPECT = "floorhand-expect"
FIRST_AUDIO = "floorhand-first-audio"
LISTEN = "floorhand-listen"
STOP = "floorhand-stop"
RUN = "run-satellite"
DETECTION = "detection"
VOICE_STARTED = "voice-started"
VOICE_STOPPED = "voice-stopped"
TRANSCRIPT = "transcript"
SYNTHESIZE = "synthesize"
PLAYED = "played"
PING = "ping"
PONG = "pong"
DESCRIBE = "describe"
ERROR = "error"


def grammar_event(grammar: Grammar) -> Event:
    """What can be recognised from now on."""
    return Event(GRAMMAR, asdict(grammar))


def read_grammar(event: Event) -> Grammar:
    """Raises KeyError when a field is missing."""
    data = event.data
    return Grammar(
        language=data["language"],
        jsgf=data["jsgf"],
        confirm_jsgf=data["confirm_jsgf"],
        words=tuple(data["words"]),
        sentences=tuple(data["sentences"]),
    )


def prepare_event(sentences: Sequence[str], language: str) -> Event:
    """Sentences whose audio should be ready before they are needed."""
    return Event(PREPARE, {"sentences": list(sentences), "language": language})


def synthesize_event(delivery: Delivery) -> Event:
    """Wyoming's ``synthesize``, with the delivery's id, lead and priority beside the text."""
    return Event(
        SYNTHESIZE,
        {
            "text": delivery.text,
            "voice": {"language": delivery.language},
            "lead": delivery.lead,
            "delivery": delivery.id,
            "priority": delivery.priority,
        },
    )


def error_event(text: str, code: str, **facts: Any) -> Event:
    """Wyoming's ``error`` with facts. ``code`` is a code of ``contracts.errors``."""
    return Event(ERROR, {"text": text, "code": code, **facts})


def transcript_event(utterance: Utterance) -> Event:
    """Wyoming's ``transcript`` carrying every field of an Utterance."""
    return Event(TRANSCRIPT, {**asdict(utterance), "facts": dict(utterance.facts)})


def read_utterance(data: Mapping[str, Any]) -> Utterance:
    """Raises KeyError when a field is missing."""
    return Utterance(
        id=data["id"],
        text=data["text"],
        language=data["language"],
        engine=data["engine"],
        confidence=data["confidence"],
        wake_mono_ns=data["wake_mono_ns"],
        speech_ended_mono_ns=data["speech_ended_mono_ns"],
        transcribed_mono_ns=data["transcribed_mono_ns"],
        facts=data["facts"],
    )
