"""What was heard at the machine enters here.

In: an :class:`Utterance` from the voice process. Out: an admission whose payload carries ``text``, ``language``, ``by``,
``utterance`` and the times needed to account for latency. Who calls: the app's listening task.
"""

from __future__ import annotations

from appliance.contracts.admission import PRIORITY_UTTERANCE, Admitted, Door
from appliance.contracts.ports import Admitter
from appliance.contracts.speech import Utterance
from appliance.intake.speaking import IsInterjection, never, spoken_request

SPEAKER_LANE = "speaker:floor"  # one microphone, so whoever stands at the machine shares one lane


class VoiceDoor:
    """Admits utterances."""

    def __init__(self, gate: Admitter, is_interjection: IsInterjection = never) -> None:
        self._gate = gate
        self._is_interjection = is_interjection

    async def admit(self, utterance: Utterance) -> Admitted:
        """Make the utterance durable. The voice process' id is the key: a resent transcript is the same admission."""
        payload = {
            "text": utterance.text,
            "language": utterance.language,
            "by": "voice",
            "utterance": utterance.id,
            "engine": utterance.engine,
            "confidence": utterance.confidence,
            "speech_ended_mono_ns": utterance.speech_ended_mono_ns,
            "transcribed_mono_ns": utterance.transcribed_mono_ns,
            "facts": dict(utterance.facts),
        }
        key = f"utterance:{utterance.id}"
        return await self._gate.admit(
            spoken_request(self._is_interjection, Door.VOICE, SPEAKER_LANE, key, payload, PRIORITY_UTTERANCE)
        )
