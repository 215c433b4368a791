"""What was heard at the machine enters here.

In: an :class:`Utterance` from the voice process. Out: an admission whose payload carries ``text``, ``language``, ``by``,
``utterance`` and the times needed to account for latency. Who calls: the app's listening task.
"""

from __future__ import annotations

from appliance.contracts.admission import PRIORITY_UTTERANCE, Admitted, Door, Request, RequestKind
from appliance.contracts.ports import Admitter
from appliance.contracts.speech import Utterance

SPEAKER_LANE = "speaker:floor"  # one microphone, so whoever stands at the machine shares one lane


class VoiceDoor:
    """Admits utterances."""

    def __init__(self, gate: Admitter) -> None:
        self._gate = gate

    async def admit(self, utterance: Utterance) -> Admitted:
        """Make the utterance durable. The voice process' id is the key: a resent transcript is the same admission."""
        return await self._gate.admit(
            Request(
                door=Door.VOICE,
                kind=RequestKind.UTTERANCE,
                lane=SPEAKER_LANE,
                dedupe_key=f"utterance:{utterance.id}",
                payload={
                    "text": utterance.text,
                    "language": utterance.language,
                    "by": "voice",
                    "utterance": utterance.id,
                    "engine": utterance.engine,
                    "confidence": utterance.confidence,
                    "speech_ended_mono_ns": utterance.speech_ended_mono_ns,
                    "transcribed_mono_ns": utterance.transcribed_mono_ns,
                    "facts": dict(utterance.facts),
                },
                priority=PRIORITY_UTTERANCE,
            )
        )
