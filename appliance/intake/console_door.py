"""What a technician types enters here (``floorhand ask``), treated as an utterance of a named person."""

from __future__ import annotations

from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_CONSOLE, Admitted, Arrival, Door
from appliance.contracts.clock import IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.ports import Admitter
from appliance.intake.speaking import IsInterjection, never, spoken_request

_JOINS = {Arrival.QUEUE: "without --steer or --redirect", Arrival.STEER: "with --steer", Arrival.REDIRECT: "with --redirect"}


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
        asked = spoken_request(
            self._is_interjection,
            Door.CONSOLE,
            lanes.of_person(by),
            f"ask:{by}:{key}" if key else self._ids.mint("ask"),
            {"text": text, "language": language, "by": by},
            PRIORITY_CONSOLE,
            arrival,
        )
        try:
            return await self._gate.admit(asked)
        except Refused as refused:
            if "differs" not in refused.facts:
                raise
            raise _used_before(key, refused) from refused


def _used_before(key: str, refused: Refused) -> Refused:
    """Tell a person, in their own terms, that their key stands for something else."""
    what = "another sentence"
    if refused.facts["differs"] == "arrival":
        what = f"the same sentence, but {_JOINS[Arrival(str(refused.facts['arrival']))]}"
    cure = "Choose another --key for a new request, or give this one as it was given first."
    return Refused(f"you have used the key {key} before for {what}", **{**refused.facts, "cure": cure})
