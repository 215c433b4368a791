"""What was heard at the machine enters here.

In: an :class:`Utterance` from the voice process. Out: an admission whose payload carries ``text``, ``language``, ``by``,
``principal``, ``utterance`` and the times needed to account for latency. Who calls: the app's listening task.
"""

from __future__ import annotations

from appliance.contracts.admission import PRIORITY_UTTERANCE, Admitted, Door
from appliance.contracts.ports import Admitter
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.contracts.speech import Utterance
from appliance.intake.speaking import IsInterjection, never, spoken_request

SPEAKER_LANE = "speaker:floor"  # one microphone, so whoever stands at the machine shares one lane
SPEAKER = Principal("voice", Identification.VOICE, "operator", AccessLevel.OPERATOR)
"""Whoever speaks, as the policies have it unless they say otherwise."""


class VoiceDoor:
    """Admits utterances."""

    def __init__(self, gate: Admitter, is_interjection: IsInterjection = never, speaker: Principal = SPEAKER) -> None:
        """``speaker`` is what the site's policies make of whoever speaks."""
        self._gate = gate
        self._speaker = speaker
        self._is_interjection = is_interjection

    async def admit(self, utterance: Utterance) -> Admitted:
        """Make the utterance durable. The voice process' id is the key: a resent transcript is the same admission."""
        payload = {
            "text": utterance.text,
            "language": utterance.language,
            "by": self._speaker.by,
            PRINCIPAL: self._speaker.to_json(),
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
