"""What a technician types enters here (``floorhand ask``), treated as an utterance of a named person."""

from __future__ import annotations

from appliance.contracts.admission import PRIORITY_CONSOLE, Admitted, Door, Request, RequestKind
from appliance.contracts.clock import IdSource
from appliance.contracts.ports import Admitter


class ConsoleDoor:
    """Admits typed utterances."""

    def __init__(self, gate: Admitter, ids: IdSource) -> None:
        self._gate = gate
        self._ids = ids

    async def admit(self, text: str, language: str, by: str) -> Admitted:
        """Make the sentence durable. Every call is a new admission: typing the same twice means it twice."""
        return await self._gate.admit(
            Request(
                door=Door.CONSOLE,
                kind=RequestKind.UTTERANCE,
                lane=f"console:{by}",
                dedupe_key=self._ids.mint("ask"),
                payload={"text": text, "language": language, "by": by},
                priority=PRIORITY_CONSOLE,
            )
        )
