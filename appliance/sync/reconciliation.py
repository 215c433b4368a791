"""What both sides hold, compared: catches up after a lost reply, goes back for a restored coordinator, stops at a fork.

A restored or cloned card writes other entries under numbers that the coordinator knows. That cannot be mended by a machine:
the lane stops, says so, and keeps everything; the other lanes go on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from appliance.contracts.clock import Clock
from appliance.contracts.operation import GENESIS_HASH, OperationLane
from appliance.contracts.store import Ledger, Transaction
from appliance.foundation.supervisor import Degraded
from appliance.store import operations, uplink
from appliance.store.uplink import LaneHead

log = logging.getLogger(__name__)

PART = "sync"
FORKED, REWOUND = "sync.forked", "sync.rewound"

Held = tuple[int, str]
"""Highest sequence the coordinator holds of a lane, and its hash."""

_NOTHING: Held = (0, GENESIS_HASH)


class Reconciliation:
    """``stopped`` says for each lane that cannot go on why; shown as the degraded part ``sync``, until it goes on indeed."""

    def __init__(self, ledger: Ledger, clock: Clock, degraded: Degraded) -> None:
        self._ledger = ledger
        self._clock = clock
        self._degraded = degraded
        self._forked: set[OperationLane] = set()
        self._shown: dict[OperationLane, str] = {}
        self.stopped: dict[OperationLane, str] = {}

    async def compare(self, held_heads: Mapping[str, Held]) -> None:
        """Bring every lane in line with what the coordinator holds; a forked one goes on if the fork is mended."""
        for lane, ours in (await uplink.lane_heads(self._ledger)).items():
            if lane in self.stopped and lane not in self._forked:
                continue
            held = held_heads.get(lane, _NOTHING)
            if await uplink.hash_at(self._ledger, lane, held[0]) != held[1]:
                self._forked.add(lane)
                await self.stop(lane, "fork", _other_history(lane, held[0]), ours, held)
                continue
            self._let_go(lane)
            if held[0] < ours.acknowledged_seq:
                await self._rewind(lane, ours, held[0])
            elif held[0] > ours.acknowledged_seq:
                await self._catch_up(lane, held[0])
                self.goes_on(lane)

    def forgive(self) -> None:
        """Try lanes again whose entries were refused: another version of the coordinator may take them. Until it has
        (:meth:`goes_on`) they are shown as stopped."""
        for lane in set(self.stopped) - self._forked:
            del self.stopped[lane]

    def goes_on(self, lane: OperationLane) -> None:
        """Note that the coordinator takes a lane's entries."""
        if self._shown.pop(lane, None) is not None:
            self._show()

    async def stop(self, lane: OperationLane, reason: str, why: str, ours: LaneHead, held: Held = _NOTHING) -> None:
        """Stop a lane, loudly, and in the log once: nothing is dropped, a person decides which history is the true one."""
        self.stopped[lane] = self._shown[lane] = why
        self._show()
        facts = {
            "lane": str(lane),
            "reason": reason,
            "why": why,
            "acknowledged_seq": ours.acknowledged_seq,
            "our_seq": ours.seq,
            "held_seq": held[0],
            "held_hash": held[1],
        }
        known = await uplink.newest_of(self._ledger, OperationLane.P1, (FORKED,), str(lane))
        if known is None or any(known.payload[key] != facts[key] for key in ("reason", "acknowledged_seq")):
            await self._ledger.transaction(
                lambda tx: operations.append(tx, self._clock, OperationLane.P1, FORKED, str(lane), facts),
            )
            log.error("sync.forked", extra={"lane": lane, "reason": reason, "why": why})

    def _let_go(self, lane: OperationLane) -> None:
        self._forked.discard(lane)
        if self.stopped.pop(lane, None) is not None:
            self.goes_on(lane)

    def _show(self) -> None:
        if self._shown:
            self._degraded.mark(PART, "; ".join(f"{lane} is stopped: {why}" for lane, why in sorted(self._shown.items())))
        else:
            self._degraded.clear(PART)

    async def _catch_up(self, lane: OperationLane, held_seq: int) -> None:
        """The coordinator holds more of our own entries than we knew: its reply was lost."""
        await self._ledger.transaction(lambda tx: uplink.acknowledge(tx, lane, held_seq))

    async def _rewind(self, lane: OperationLane, ours: LaneHead, held_seq: int) -> None:
        """The coordinator holds less than it once acknowledged, a restored backup: send again from its head."""

        def work(tx: Transaction) -> None:
            uplink.rewind(tx, lane, held_seq)
            facts = {"lane": str(lane), "acknowledged_seq": ours.acknowledged_seq, "held_seq": held_seq}
            operations.append(tx, self._clock, OperationLane.P1, REWOUND, str(lane), facts)

        await self._ledger.transaction(work)
        log.warning("sync.rewound", extra={"lane": lane, "from_seq": ours.acknowledged_seq, "to_seq": held_seq})


def _other_history(lane: OperationLane, held_seq: int) -> str:
    return (
        f"the coordinator holds another history of {lane} up to {held_seq}, as after a restored or copied card;"
        " both are kept, here and there; the way on is a new ledger under a new name at the coordinator"
        " (docs/operations.md, Copies and restored cards)"
    )
