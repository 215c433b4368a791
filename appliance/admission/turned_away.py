"""Who was turned away for want of room, in the audit log: once a minute for each lane, so that a flood does not fill it (R1)."""

from __future__ import annotations

from appliance.contracts.admission import Request
from appliance.contracts.clock import Clock
from appliance.contracts.store import Transaction
from appliance.store import audit

_AGAIN_NS = 60 * 1_000_000_000  # whoever reads it wants to know who, when and how often, not each time
_LANES_AT_ONCE = 32  # noted within that time; a thousand names are one flood, and the next entry counts them


class TurnedAway:
    """Notes refusals. Used in transactions only, by the thread that writes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted_ns: dict[str, int] = {}
        self._unnoted = 0

    def note(self, tx: Transaction, request: Request, why: str) -> None:
        """Append ``audit.turned_away``, or count it for the next entry."""
        now_ns = self._clock.monotonic_ns()
        self._noted_ns = {lane: noted_ns for lane, noted_ns in self._noted_ns.items() if now_ns - noted_ns < _AGAIN_NS}
        if request.lane in self._noted_ns or len(self._noted_ns) >= _LANES_AT_ONCE:
            self._unnoted += 1
            return
        self._noted_ns[request.lane] = now_ns
        facts = {"door": str(request.door), "kind": str(request.kind), "lane": request.lane, "why": why}
        audit.note(tx, self._clock, "turned_away", request.lane, facts | {"others_since": self._unnoted})
        self._unnoted = 0
