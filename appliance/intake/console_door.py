"""What a technician types enters here (``floorhand ask``), treated as an utterance of a named person."""

from __future__ import annotations

from dataclasses import replace

from appliance.contracts import lane as lanes
from appliance.contracts.admission import PRIORITY_CONSOLE, Admitted, Arrival, Door
from appliance.contracts.clock import IdSource
from appliance.contracts.errors import Refused
from appliance.contracts.ports import Admitter
from appliance.contracts.principal import PRINCIPAL, AccessLevel, Identification, Principal
from appliance.intake.speaking import IsInterjection, never, spoken_request

_JOINS = {Arrival.QUEUE: "without --steer or --redirect", Arrival.STEER: "with --steer", Arrival.REDIRECT: "with --redirect"}


TYPIST = Principal("console", Identification.SOCKET, "operator", AccessLevel.OPERATOR)
"""Whoever types on this machine without a token, as the policies have it unless they say otherwise."""


class ConsoleDoor:
    """Admits typed utterances."""

    def __init__(
        self, gate: Admitter, ids: IdSource, is_interjection: IsInterjection = never, typist: Principal = TYPIST
    ) -> None:
        """``typist`` is what the site's policies make of whoever types without a token; the name is as given each time."""
        self._gate = gate
        self._ids = ids
        self._is_interjection = is_interjection
        self._typist = typist

    async def admit(
        self,
        text: str,
        language: str,
        by: str,
        *,
        key: str = "",
        arrival: Arrival = Arrival.QUEUE,
        holder: Principal | None = None,
    ) -> Admitted:
        """Make the sentence durable.

        ``key`` is the client's name for this one request: sent again with it, over a network that lost the answer, it is the same
        admission and the same turn. Without one every call is a new admission: typing the same twice means it twice.

        ``holder`` is whose token verified: then the person is that one, whatever ``by`` says. Keys and lanes of who holds a token
        are theirs alone. What is sent again with a renewed token stands as it was asked first.

        Raises:
            Refused: this person's key was used before for something else.
            Unavailable: there is no room for it now.
        """
        who = replace(self._typist, by=by) if holder is None else holder
        keys, lane = ("ask", lanes.of_person(who.by)) if holder is None else ("ask_with_token", lanes.of_token(who.by))
        asked = spoken_request(
            self._is_interjection,
            Door.CONSOLE,
            lane,
            f"{keys}:{who.by}:{key}" if key else self._ids.mint("ask"),
            {"text": text, "language": language, "by": who.by, PRINCIPAL: who.to_json()},
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
