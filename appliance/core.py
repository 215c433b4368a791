"""What the local API may ask of the running core: state, a typed sentence, speech, tags, settling an unknown.

In: calls from the local API. Out: admissions, deliveries and answers that JSON can carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from appliance.contracts.admission import PRIORITY_CONSOLE, Admission, Arrival, Outcome
from appliance.contracts.alarm_acts import AlarmActs
from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import Refused
from appliance.contracts.operating_acts import OperatingActs
from appliance.contracts.plant import Plant
from appliance.contracts.ports import FieldBus, Reachability
from appliance.contracts.principal import Principal
from appliance.contracts.reading import Reading
from appliance.contracts.store import Ledger, Transaction
from appliance.contracts.turn import Turn, TurnState
from appliance.execution.runner import Runner
from appliance.foundation.sentence import joined
from appliance.foundation.supervisor import Degraded
from appliance.intake.console_door import ConsoleDoor
from appliance.session.turns import Turns
from appliance.store import admissions, audit, deliveries, effects, turns
from appliance.version import VERSION

_SEE_UNKNOWNS = "`floorhand unknowns list` shows what waits to be settled."
_ENDS_OF_JOINED = {TurnState.FAILED: Outcome.FAILED, TurnState.ABANDONED: Outcome.INTERRUPTED}


def _has_joined(asked: Admission, turn: Turn) -> bool:
    """Whether an admission has become part of a turn that ran already: it is done once it was taken up."""
    return asked.arrival is not Arrival.QUEUE and turn.admission_id != asked.id


def _is_over(asked: Admission, row: Mapping[str, Any], turn: Turn | None) -> bool:
    goes_on = turn is not None and _has_joined(asked, turn) and turn.state in turns.ACTIVE
    return row["status"] == "terminal" and not goes_on


@dataclass(slots=True)
class Standing:
    """Where the process is between its start and its end."""

    origin: str
    epoch: int
    ready: bool = False
    stopping: bool = False
    leads_no_more: bool = False
    facts: dict[str, Callable[[], Any]] = field(default_factory=dict)


class RunningCore:
    """Implements ``contracts.ports.Core``."""

    def __init__(
        self,
        standing: Standing,
        *,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        plant: Plant,
        field_bus: FieldBus,
        door: ConsoleDoor,
        runner: Runner,
        turns: Turns,
        availability: Reachability,
        alarms: AlarmActs,
        operating: OperatingActs,
        degraded: Degraded,
        ended: asyncio.Condition,
        delivered: Callable[[], None],
    ) -> None:
        """``ended`` is notified whenever a turn stops running; ``delivered`` is called after words were queued."""
        self._standing = standing
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._plant = plant
        self._field_bus = field_bus
        self._door = door
        self._runner = runner
        self._turns = turns
        self._availability = availability
        self._alarms = alarms
        self._operating = operating
        self._degraded = degraded
        self._ended = ended
        self._delivered = delivered

    @property
    def alarms(self) -> AlarmActs:
        """What may be asked about alarms."""
        return self._alarms

    @property
    def operating(self) -> OperatingActs:
        """What may be asked of the appliance as a whole."""
        return self._operating

    def status(self) -> Mapping[str, Any]:
        """Version, origin, epoch, readiness, what is degraded, and the facts of the parts."""
        standing = self._standing
        return {
            "version": VERSION,
            "origin": standing.origin,
            "epoch": standing.epoch,
            "ready": standing.ready,
            "stopping": standing.stopping,
            "degraded": dict(self._degraded.reasons),
            "online": self._availability.is_online,
            "clock_synced": self._clock.is_synced,
            **{name: tell() for name, tell in standing.facts.items()},
        }

    async def ask(
        self,
        text: str,
        language: str,
        *,
        wait_s: float,
        key: str = "",
        arrival: Arrival = Arrival.QUEUE,
        by: str = "console",
        holder: Principal | None = None,
    ) -> Mapping[str, Any]:
        """Admit a typed sentence and wait until its turn ends or asks, at most ``wait_s``.

        Raises:
            Refused: the key was used for something else.
            Unavailable: too much waits already.
        """
        admitted = await self._door.admit(text, language, by, key=key, arrival=arrival, holder=holder)
        row, turn = await self._until_over(admitted.admission, wait_s)
        turn_id, outcome = row["turn_id"], row["outcome"]
        if turn is not None and _has_joined(admitted.admission, turn) and outcome == Outcome.DONE:  # that is: it was taken up
            outcome = _ENDS_OF_JOINED.get(turn.state, outcome)
        said = (
            await self._ledger.fetch(deliveries.OF_TURN_SINCE, (turn_id, admitted.admission.admitted_mono_ns)) if turn_id else []
        )
        return {
            "admission": row["id"],
            "status": row["status"],
            "outcome": outcome,
            "turn": turn_id,
            "state": turn.state if turn else None,
            "intent": turn.intent if turn else None,
            "failure": turn.failure if turn else "",
            "replies": [joined(r["lead"], r["text"]) for r in said],
        }

    async def _until_over(self, asked: Admission, wait_s: float) -> tuple[Mapping[str, Any], Turn | None]:
        """Wait until an admission has ended, and the turn too that it has joined; return both as they are then."""

        async def look() -> tuple[Mapping[str, Any], Turn | None]:
            row = (await self._ledger.fetch(admissions.STATE_OF, (asked.id,)))[0]
            turn = await self._turns.load(row["turn_id"]) if row["turn_id"] else None
            return {key: row[key] for key in row.keys()}, turn  # noqa: SIM118 - a sqlite Row iterates over values

        try:
            async with asyncio.timeout(wait_s), self._ended:
                while not _is_over(asked, *(found := await look())) and not self._standing.leads_no_more:
                    await self._ended.wait()
                return found
        except TimeoutError:
            return await look()

    async def speak(self, text: str, language: str) -> Mapping[str, Any]:
        """Queue a sentence for the speaker."""

        def queue(tx: Transaction) -> Delivery:
            return deliveries.queue(
                tx, self._clock, self._ids, turn_id=None, language=language, text=text,
                priority=PRIORITY_CONSOLE,
            )  # fmt: skip

        delivery = await self._ledger.transaction(queue)
        self._delivered()
        return {"delivery": delivery.id, "status": delivery.status}

    async def read_tags(self, keys: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Read tags now, all declared ones when ``keys`` is empty. The wire address is always shown.

        Raises:
            Refused: a key is not declared.
        """
        wanted = list(keys) or list(self._plant.tag_by_key)
        readings = await self._field_bus.read(wanted)
        return [self._shown(readings[key]) for key in wanted]

    def _shown(self, reading: Reading) -> Mapping[str, Any]:
        tag, age_s = self._plant.tag_by_key[reading.tag], reading.age_s(self._clock)
        return {
            "key": reading.tag,
            "value": reading.value,
            "unit": reading.unit,
            "quality": reading.quality,
            "age_s": None if age_s is None else round(age_s, 1),
            "why": reading.why,
            "raw": list(reading.raw),
            "wire": tag.where,
            "writable": tag.writable,
        }

    async def probe_tag(self, key: str) -> Mapping[str, Any]:
        """Show a tag's raw registers decoded in every order, with its wire address.

        Raises:
            Refused: not declared, not on a Modbus link, or the device says no.
            Unavailable: the device does not answer.
        """
        return await self._field_bus.probe(key)

    async def settle(self, identity: str, verdict: str, note: str, by: str) -> Mapping[str, Any]:
        """Settle an unknown effect (``done``, ``not-done``) or an unknown admission (``interrupted``).

        Raises:
            Refused: there is no such unknown, it is settled already, or the verdict does not fit it.
        """
        if await self._ledger.transaction(lambda tx: effects.of_action(tx, identity)) is not None:
            settled = await self._runner.settle_effect(identity, cast(Literal["done", "not-done"], verdict), note, by)
            return {"id": identity, "kind": "effect", "status": settled.status, "settled_by": settled.settled_by}
        if verdict != "interrupted":
            message = f"there is no unknown effect {identity}; an admission is settled as interrupted"
            raise Refused(message, id=identity, cure=_SEE_UNKNOWNS)

        def work(tx: Transaction) -> Admission:
            found = admissions.by_id(tx, identity)
            if found.status != "unknown":
                raise Refused(f"{identity} is {found.status}, not unknown", id=identity, cure=_SEE_UNKNOWNS)
            audit.note(tx, self._clock, "unknown_settled", identity, {"by": by, "verdict": verdict, "note": note})
            return admissions.settle(tx, self._clock, identity, Outcome.INTERRUPTED, by=by)

        done = await self._ledger.transaction(work)
        return {"id": identity, "kind": "admission", "status": done.status, "settled_by": by}
