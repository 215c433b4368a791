"""The reference story as the world outside tells it: who sends keeps what was not acknowledged and offers it again.

A PLC's alarm is announced and asks; a yes makes a work order and files a report; a spoken wish sets a tag after its confirmation;
a question is steered; a write that is not answered is stopped; the alarm is acknowledged and clears. Each life tells the story
from its beginning and leaves out what is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from appliance.contracts.admission import Arrival
from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.errors import Unavailable
from appliance.contracts.speech import Utterance
from crash.rooms import LANGUAGE, Core
from crash.world import ACKNOWLEDGED, MACHINE, OFFERED, Machine, World, at_once

RAISED_UTC = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)

_OPEN = """SELECT (SELECT count(*) FROM admission WHERE status <> 'terminal')
    + (SELECT count(*) FROM delivery WHERE status IN ('pending', 'attempting'))
    + (SELECT count(*) FROM operation_head WHERE lane = 'P0' AND seq > coalesce((SELECT p0_seq FROM alarm_feed), 0)) AS open"""
_ASKED = "SELECT count(*) AS asked FROM confirmation WHERE status = 'pending'"
_UNKNOWN = """SELECT action_id, arguments ->> '$.key' AS key, arguments ->> '$.value' AS value
    FROM effect WHERE status = 'unknown' ORDER BY seq"""

KEYS = (
    "alarm:line_3_plc:motor_3_over_temperature:7-1:raised", "utterance:ut_order", "utterance:ut_set", "utterance:ut_set it",
    "ask:anna:temperature", "ask:anna:load", "ask:anna:set again", "ask:anna:set it again", "ask:anna:stop",
    "utterance:ut_acknowledge", "alarm:line_3_plc:motor_3_over_temperature:7-1:cleared",
)  # fmt: skip
"""The duplicate keys of everything that comes in."""

_READING_S = 0.02  # a machine takes a moment to answer; whoever steers the turn is heard meanwhile
_REST_WITHIN_S = 60.0  # a loaded machine; a story needs less than a second


async def settle_unknowns(core: Core, world: World) -> None:
    """What nobody knows is settled by a person who has seen the machine."""
    seen = {(each["key"], each["value"]) for each in world.seen(MACHINE)}
    for row in await core.ledger.fetch(_UNKNOWN):
        happened = (row["key"], row["value"]) in seen
        await core.runner.settle_effect(row["action_id"], "done" if happened else "not-done", "saw the machine", "anna")


class Story:
    """Tells the story to a core. What was offered and what was acknowledged is part of the world."""

    def __init__(self, core: Core, world: World, machine: Machine) -> None:
        self._core = core
        self._world = world
        self._machine = machine
        self._offered = {each["key"]: each for each in world.seen(OFFERED)}
        self._acknowledged = {each["key"] for each in world.seen(ACKNOWLEDGED)}
        self._written = asyncio.Event()
        core.ledger.on_commit(self._written.set)

    async def tell(self) -> None:
        """Tell what is left of it."""
        await self._alarm("7-1", AlarmChange.RAISED)
        await self.rest()
        await self._answer("order", "yes")
        await self.rest()
        await self._say("set", "set the fan speed of motor three to eighty percent")
        await self.rest()
        await self._answer("set it", "yes confirm")
        await self.rest()
        await self._steered()
        await self._stopped()
        await self._say("acknowledge", "acknowledge the alarm")
        await self._alarm("7-1", AlarmChange.CLEARED)
        await self.rest()

    async def _steered(self) -> None:
        """While the machine is read for one thing, somebody wants another one of the same turn."""

        async def while_reading(keys: Sequence[str]) -> None:
            self._machine.reading = at_once
            await self._type("load", "what is the load of motor three", arrival=Arrival.STEER)
            await asyncio.sleep(_READING_S)

        self._machine.reading = while_reading
        await self._type("temperature", "what is the temperature of motor three")
        await self.rest()
        self._machine.reading = at_once
        await self._type("load", "what is the load of motor three", arrival=Arrival.STEER)
        await self.rest()

    async def _stopped(self) -> None:
        """A write got through and is not answered: somebody stops it."""

        async def while_writing(keys: Sequence[str]) -> None:
            await self._type("stop", "stop that")
            await asyncio.Event().wait()

        await self._type("set again", "set the fan speed of motor three to seventy percent")
        await self.rest()
        self._machine.writing = while_writing
        await self._type("set it again", "yes confirm")
        await self.rest()
        self._machine.writing = at_once
        await self._type("stop", "stop that")
        await self.rest()
        await settle_unknowns(self._core, self._world)
        await self.rest()

    async def rest(self) -> None:
        """Wait until nothing is left to be led, said or sent."""
        async with asyncio.timeout(_REST_WITHIN_S):
            while True:
                self._written.clear()
                if self._core.failed:
                    raise self._core.failed[0]
                if (await self._core.ledger.fetch(_OPEN))[0]["open"] == 0:
                    return
                await self._written.wait()

    # who sends --------------------------------------------------------------------------------------------------------
    async def _alarm(self, activation: str, change: AlarmChange) -> None:
        """The gateway: the broker keeps its message until it is acknowledged."""
        event = AlarmEvent("line_3_plc", "motor_3_over_temperature", activation, change, 94.2, "degC", RAISED_UTC)
        await self._offer(event.dedupe_key, {}, lambda _: self._core.alarms.door.admit(event))

    async def _answer(self, key: str, text: str) -> None:
        """A person, who answers when asked."""
        if f"utterance:ut_{key}" in self._offered or (await self._core.ledger.fetch(_ASKED))[0]["asked"]:
            await self._say(key, text)

    async def _say(self, key: str, text: str) -> None:
        """A person at the machine. Said once: what is offered again is the same utterance, with its times."""
        now_ns = self._core.clock.monotonic_ns()

        def admit(said: dict[str, Any]) -> Awaitable[Any]:
            return self._core.voice_door.admit(
                Utterance(f"ut_{key}", text, LANGUAGE, "test", None, said["at_ns"], said["at_ns"], said["at_ns"])
            )

        await self._offer(f"utterance:ut_{key}", {"at_ns": now_ns}, admit)

    async def _type(self, key: str, text: str, arrival: Arrival = Arrival.QUEUE) -> None:
        """A person at a keyboard, whose client sends it again under the same key until it is answered."""
        await self._offer(
            f"ask:anna:{key}", {}, lambda _: self._core.console_door.admit(text, LANGUAGE, "anna", key=key, arrival=arrival)
        )

    async def _offer(self, key: str, content: dict[str, Any], admit: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        if key in self._acknowledged:
            return
        if key not in self._offered:
            self._offered[key] = {"key": key, **content}
            self._world.happen(OFFERED, **self._offered[key])
        while True:
            try:
                await admit(self._offered[key])
                break
            except Unavailable as busy:
                await asyncio.sleep(busy.retry_after_s or 0.0)
        self._world.happen(ACKNOWLEDGED, key=key)
        self._acknowledged.add(key)
