"""What a technician types enters here (``floorhand ask``), treated as an utterance of a named person."""

from __future__ import annotations

from appliance.contracts.admission import PRIORITY_CONSOLE, Admitted, Arrival, Door
from appliance.contracts.clock import IdSource
from appliance.contracts.ports import Admitter
from appliance.intake.speaking import IsInterjection, never, spoken_request


class ConsoleDoor:
    """Admits typed utterances."""

    def __init__(self, gate: Admitter, ids: IdSource, is_interjection: IsInterjection = never) -> None:
        self._gate = gate
        self._ids = ids
        self._is_interjection = is_interjection

    async def admit(self, text: str, language: str, by: str, *, key: str = "", arrival: Arrival = Arrival.QUEUE) -> Admitted:
        """Make the sentence durable.

        ``key`` is the client's name for this one request: sent again with it, over a network that lost the answer, it is the same
        admission and the same turn. Without one every call is a new admission: typing the same twice means it twice.

        Raises:
            Refused: this person's key was used before for something else.
            Unavailable: there is no room for it now.
        """
        return await self._gate.admit(
            spoken_request(
                self._is_interjection,
                Door.CONSOLE,
                f"console:{by}",
                f"ask:{by}:{key}" if key else self._ids.mint("ask"),
                {"text": text, "language": language, "by": by},
                PRIORITY_CONSOLE,
                arrival,
            )
        )
