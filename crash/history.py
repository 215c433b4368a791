"""One history of one appliance in this process: what comes in, what goes wrong, the lives it takes, and what must hold of it.

The model is small: what was accepted, what may have happened in the world, and what must have been said. The ledger and the world
are held against it by :class:`crash.books.Books`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.contracts.errors import Refused, Unavailable, Uncertain
from crash.books import Books
from crash.fuse import Fuse
from crash.kill_switch import watched
from crash.rooms import LANGUAGE, Core, Outlets, Site
from crash.story import settle_unknowns
from crash.virtual_time import CountedIds, VirtualClock
from crash.world import ACKNOWLEDGED, MACHINE, OFFERED, Archive, BrokerFile, Loudspeaker, Machine, World

LEDGER = "ledger.db"

_OPEN_ADMISSIONS = "SELECT count(*) AS open FROM admission WHERE status <> 'terminal'"
_OPEN_WORDS = "SELECT count(*) AS open FROM delivery WHERE status IN ('pending', 'attempting') AND channel = ?"
_UNTOLD = "SELECT count(*) AS open FROM operation_head WHERE lane = 'P0' AND seq > coalesce((SELECT p0_seq FROM alarm_feed), 0)"
_QUIET_S = 0.03  # nothing was written for so long: what still runs waits for the machine
_REST_WITHIN_S = 20.0

Admit = Callable[[Core], Awaitable[Any]]


@dataclass(slots=True)
class Model:
    """What the outside knows. ``wishes`` are values that somebody wants set; each is another number."""

    wishes: list[int] = field(default_factory=list)
    consents: int = 0
    conflicts: int = 0
    sent: dict[str, Admit] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    is_held: bool = False
    written_while_held: list[str] = field(default_factory=list)


class History:
    """Runs on an event loop of its own. Public methods return when the appliance is at rest, if need be in another life."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.folder, self._site = folder, site
        self.clock, self._ids = VirtualClock(), CountedIds()
        self.model = Model()
        self._loop = asyncio.new_event_loop()
        self._stirred = asyncio.Event()
        self._machine_goes = asyncio.Event()
        self._machine_goes.set()
        self._held_up: set[object] = set()
        self.loses_reply = False
        self.deaths = 0
        self._loop.run_until_complete(self._open())

    # lives ------------------------------------------------------------------------------------------------------------
    async def _open(self) -> None:
        self.fuse = Fuse(self._note_death)
        self._world = World(self.folder, self.fuse.effect)
        self.machine = Machine(self._world, self._site.plant, self.clock)
        self.machine.writing, self.machine.reading = self._while_writing, self._while_reading
        self.voice, self.broker = Loudspeaker(self._world, self.clock), BrokerFile(self._world)
        outlets = Outlets(self.machine, self.voice, self.broker, Archive(self._world))
        with watched(self.folder / LEDGER, self.fuse):
            self.core = await Core.open(self.folder / LEDGER, self._site, self.clock, self._ids, outlets)
        self.voice.back = self.core.dispatcher.voice_ready
        self.core.ledger.on_commit(self._stirred.set)
        await self.core.start()
        self.model.is_held = self.core.holding.is_on

    def _note_death(self) -> None:
        self._loop.call_soon_threadsafe(self._stirred.set)

    async def _die(self) -> None:
        """Drop everything the process knew, and be another one."""
        self.deaths += 1
        await self.core.abandon()
        await self.core.ledger.close()
        self._held_up = set()  # what was given up may still wait, in another life
        await self._open()
        await self._offer_again()

    async def _act(self, act: Callable[[], Awaitable[None]]) -> None:
        await act()
        await self._rest()
        while self.fuse.is_dead:
            await self._die()
            await self._rest()

    def do(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something and see what comes of it."""
        self._loop.run_until_complete(self._act(act))

    def crash(self) -> None:
        """Die where it stands."""

        async def act() -> None:
            self.fuse.blow()

        self.do(act)

    def restart(self) -> None:
        """End in order, and begin again. What waits for the machine is waited for no longer than the machine takes."""

        async def act() -> None:
            self.let_machine_go()
            await self._rest()
            if not self.fuse.is_dead:
                await self.core.close()
                await self._open()

        self.do(self._surviving(act))

    async def _rest(self) -> None:
        """Return when nothing more comes of what was done, or the process died."""
        async with asyncio.timeout(_REST_WITHIN_S):
            while not self.fuse.is_dead:
                if self.core.failed:
                    raise self.core.failed[0]
                self._stirred.clear()
                if not await self._is_open():
                    return
                try:
                    async with asyncio.timeout(_QUIET_S if self._held_up else _REST_WITHIN_S):
                        await self._stirred.wait()
                except TimeoutError:
                    if self._held_up:
                        return
                    raise

    async def _is_open(self) -> bool:
        fetch = self.core.ledger.fetch
        asked = [await fetch(_OPEN_ADMISSIONS), await fetch(_UNTOLD)]
        if not self.voice.is_away:
            asked.append(await fetch(_OPEN_WORDS, ("speech",)))
        if self.broker.connected.is_set():
            asked.append(await fetch(_OPEN_WORDS, ("mqtt",)))
        return any(rows[0]["open"] for rows in asked)

    # what comes in ----------------------------------------------------------------------------------------------------
    def send(self, key: str, admit: Admit) -> None:
        """Offer an input for the first time; it counts as accepted once its sender was told so."""

        async def act() -> None:
            self.model.sent[key] = admit
            World(self.folder).happen(OFFERED, key=key)  # which takes none of our life
            await self._offer(key)

        self.do(self._surviving(act))

    def send_again(self, key: str, admit: Admit) -> bool:
        """Offer something under a key that is known; return whether it was refused."""
        refused = []

        async def act() -> None:
            try:
                await admit(self.core)
            except Refused:
                refused.append(key)

        self.do(self._surviving(act))
        return bool(refused)

    async def _offer(self, key: str) -> None:
        await self.model.sent[key](self.core)
        self._world.happen(ACKNOWLEDGED, key=key)
        self.model.accepted.add(key)

    async def _offer_again(self) -> None:
        """A broker keeps what nobody acknowledged; a person who got no answer says it again."""
        for key in self.model.sent:
            if key not in self.model.accepted and not self.fuse.is_dead:
                await self._surviving(lambda key=key: self._offer(key))()  # type: ignore[misc]

    def _surviving(self, act: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def survive() -> None:
            try:
                await act()
            except Unavailable:
                if not self.fuse.is_dead:
                    raise

        return survive

    # the machine ------------------------------------------------------------------------------------------------------
    def hold_machine_up(self) -> None:
        """From now on the machine does what it is told and answers nothing."""
        self._machine_goes.clear()

    def machine_goes_on(self) -> None:
        """Let it answer, and see what comes of it."""

        async def act() -> None:
            self.let_machine_go()

        self.do(act)

    def voice_is_away(self, is_away: bool) -> None:
        """Take the voice away, or bring it back."""

        async def act() -> None:
            self.voice.is_away = is_away
            if not is_away:
                self.core.dispatcher.voice_ready()

        self.do(act)

    def broker_is_connected(self, is_connected: bool) -> None:
        """Cut the connection to the broker, or make it again."""

        async def act() -> None:
            if is_connected:
                self.broker.connected.set()
            else:
                self.broker.connected.clear()

        self.do(act)

    def hold(self, is_on: bool) -> None:
        """Put everything on hold, or let go."""

        async def act() -> None:
            if is_on:
                await self.core.holding.hold("looking at it", "anna")
                self.model.is_held = True
            elif self.core.holding.is_on:
                self.model.is_held = False
                await self.core.holding.release("anna")

        self.do(self._surviving(act))

    def settle_unknowns(self) -> None:
        """Somebody looks at the machine and says what happened."""
        self.do(self._surviving(lambda: settle_unknowns(self.core, self._world)))

    def let_machine_go(self) -> None:
        """Let it answer."""
        self._machine_goes.set()

    async def _while_writing(self, keys: Sequence[str]) -> None:
        if self.model.is_held:
            self.model.written_while_held += keys
        await self._while_reading(keys)
        if self.loses_reply:
            self.loses_reply = False
            raise Uncertain("no answer came")

    async def _while_reading(self, keys: Sequence[str]) -> None:
        call, held_up = object(), self._held_up
        held_up.add(call)
        self._stirred.set()
        try:
            await self._machine_goes.wait()
        finally:
            held_up.discard(call)

    # what must hold ---------------------------------------------------------------------------------------------------
    def check(self, *, ended: bool = False) -> None:
        """Hold ledger, world and model against each other.

        Raises:
            AssertionError: something is lost, doubled or broken.
        """
        mark = self._site.wording.reply("repeat", LANGUAGE)
        with closing(sqlite3.connect(f"{(self.folder / LEDGER).as_uri()}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            books = Books(db, World(self.folder), mark)
            books.check_always()
            if ended:
                books.check_ended()
            assert books.found.ok, books.found
            conflicts = books.rows("SELECT count(*) AS n FROM operation WHERE kind LIKE 'audit.%_conflict'")[0]["n"]
        model = self.model
        assert model.conflicts <= conflicts <= model.conflicts + self.deaths, "a conflict is in the audit log, once"
        written = Counter(each["value"] for each in World(self.folder).seen(MACHINE))
        assert written.total() <= model.consents, f"{written} were written with {model.consents} consents"
        assert written.keys() <= set(model.wishes), "what was written, somebody wished"
        assert not model.written_while_held, "nothing is written while everything is on hold"

    def close(self) -> None:
        """Let everything come to its end and check that it did."""
        try:
            self.fuse.disarm()
            self.machine_goes_on()
            self.broker_is_connected(True)
            self.voice_is_away(False)
            self.settle_unknowns()
            self._loop.run_until_complete(self.core.close())
            self.check(ended=True)
        finally:
            self._loop.run_until_complete(self.core.abandon())
            self._loop.run_until_complete(self.core.ledger.close())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
