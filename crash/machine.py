"""Random histories: whatever comes in, goes wrong and dies, in whatever order, nothing is lost and nothing is done twice."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appliance.contracts.admission import Arrival
from appliance.contracts.alarm import AlarmChange, AlarmEvent
from appliance.contracts.speech import Utterance
from crash.history import Admit, History
from crash.rooms import LANGUAGE, Core, Site

_ALARMS = {"motor_3_over_temperature": "degC", "pump_3_low_pressure": "bar"}
_SAID = (
    "what is the temperature of motor three", "list the alarms", "acknowledge the alarm", "help", "say that again",
    "mumble mumble", "create a work order for motor three", "what are you waiting for", "are you there",
)  # fmt: skip
_INTERJECTIONS = ("stop that", "stop everything", "cancel the second step", "what are you doing")
_ANSWERS = ("yes", "yes confirm", "no")
_PEOPLE = ("voice", "anna", "bob")
_POINTS = st.integers(0, 40)  # a turn with a question, an effect and its words has about as many
_SOURCE_UTC = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)

people = st.sampled_from(_PEOPLE)


@cache
def site() -> Site:
    """What ships, read once."""
    return Site.shipped()


class RuntimeMachine(RuleBasedStateMachine):
    """Plays with one history. Each rule returns when the appliance is at rest, or waits for the machine."""

    @initialize()
    def begin(self) -> None:
        """Open a new ledger."""
        memory = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(
            prefix="floorhand-history-", dir=memory if memory.is_dir() and os.access(memory, os.W_OK) else None
        )
        self.history = History(Path(self._folder.name), site())
        self._count = 0
        self._active: dict[str, str] = {}

    # what comes in ----------------------------------------------------------------------------------------------------
    @rule(alarm=st.sampled_from(sorted(_ALARMS)), source=st.sampled_from(("gateway", "plc")))
    def alarm_changes(self, alarm: str, source: str) -> None:
        """A source tells that an alarm came, or went."""
        activation = self._active.pop(f"{source} {alarm}", "")
        change = AlarmChange.CLEARED if activation else AlarmChange.RAISED
        if not activation:
            self._active[f"{source} {alarm}"] = activation = self._number()
        event = AlarmEvent(source, alarm, activation, change, 94.2, _ALARMS[alarm], _SOURCE_UTC)
        self.history.send(event.dedupe_key, lambda core: core.alarms.door.admit(event))

    @rule(text=st.sampled_from(_SAID), by=people, arrival=st.sampled_from(Arrival))
    def somebody_says(self, text: str, by: str, arrival: Arrival) -> None:
        """A person asks for something that changes nothing at the machine; at a keyboard also to change what is being done."""
        self._say(text, by, arrival)

    @rule(text=st.sampled_from(_INTERJECTIONS), by=people)
    def somebody_interrupts(self, text: str, by: str) -> None:
        """What is being done is to end, or to be told of."""
        self._say(text, by)

    @rule(by=people)
    def somebody_wants_a_value_set(self, by: str) -> None:
        """Each wish is another value, so that the machine shows which wishes came true."""
        wish = len(self.history.model.wishes) + 1
        self.history.model.wishes.append(wish)
        self._say(f"set the fan speed of motor three to {wish} percent", by)

    @rule(text=st.sampled_from(_ANSWERS), by=people)
    def somebody_answers(self, text: str, by: str) -> None:
        """An answer, to whatever was asked or to nothing."""
        self.history.model.consents += text == "yes confirm"
        self._say(text, by)

    @rule(by=people, dies_after=st.none() | st.integers(0, 12))
    def a_wish_is_confirmed(self, by: str, dies_after: int | None) -> None:
        """The whole of it, perhaps with a death in the middle of the write."""
        self.somebody_wants_a_value_set(by)
        if dies_after is not None:
            self.history.fuse.burn_after(dies_after)
        self.somebody_answers("yes confirm", by)

    @precondition(lambda self: self.history.model.accepted)
    @rule(which=st.integers(0, 99))
    def it_comes_again(self, which: int) -> None:
        """A sender did not hear that it was taken."""
        model = self.history.model
        key = sorted(model.accepted)[which % len(model.accepted)]
        assert not self.history.send_again(key, model.sent[key]), f"{key} is the same as before"

    @precondition(lambda self: self.history.model.accepted)
    @rule(which=st.integers(0, 99))
    def something_else_comes_under_its_key(self, which: int) -> None:
        """A sender uses a name twice."""
        model = self.history.model
        key = sorted(model.accepted)[which % len(model.accepted)]
        deaths = self.history.deaths
        refused = self.history.send_again(key, self._other(key))
        model.conflicts += refused
        assert refused or self.history.deaths > deaths, f"something else was taken for {key}"

    # what goes wrong --------------------------------------------------------------------------------------------------
    @rule(points=_POINTS)
    def it_will_die(self, points: int) -> None:
        """The next thing to be done will not come to its end."""
        self.history.fuse.burn_after(points)

    @rule()
    def it_dies(self) -> None:
        """Power is lost, or the process is killed."""
        self.history.crash()

    @rule()
    def it_is_restarted(self) -> None:
        """Somebody updates it."""
        self.history.restart()

    @rule(seconds=st.sampled_from((-86_400, -3_600, 3_600, 86_400)))
    def the_clock_jumps(self, seconds: int) -> None:
        """Somebody sets the time, or a summer ends."""
        self.history.clock.jump(seconds)

    @rule(seconds=st.sampled_from((1, 100, 1_000, 4_000)))
    def time_passes(self, seconds: int) -> None:
        """Nobody does anything."""
        self.history.clock.pass_by(seconds)

    @rule()
    def power_fails(self) -> None:
        """It is switched off and on, and does not know what time it is."""
        self.history.clock.power_on()
        self.history.crash()

    @rule()
    def time_arrives(self) -> None:
        """The network tells the time."""
        self.history.clock.be_told()

    @rule(is_away=st.booleans())
    def the_voice_changes(self, is_away: bool) -> None:
        """The voice process dies, or is back."""
        self.history.voice_is_away(is_away)

    @rule()
    def the_voice_breaks_off(self) -> None:
        """The next sentence is not heard to its end."""
        self.history.voice.breaks_off = True

    @rule(is_connected=st.booleans())
    def the_broker_changes(self, is_connected: bool) -> None:
        """The broker goes, or is back."""
        self.history.broker_is_connected(is_connected)

    @rule()
    def the_broker_loses_an_answer(self) -> None:
        """The next message arrives and nobody hears of it."""
        self.history.broker.loses_answer = True

    @rule()
    def the_machine_is_slow(self) -> None:
        """What is asked of the machine from now on takes until it goes on."""
        self.history.hold_machine_up()

    @rule()
    def the_machine_goes_on(self) -> None:
        """It answers."""
        self.history.machine_goes_on()

    @rule()
    def the_machine_loses_a_reply(self) -> None:
        """The next write gets through, and its answer does not."""
        self.history.loses_reply = True

    @rule(is_on=st.booleans())
    def everything_is_held(self, is_on: bool) -> None:
        """Somebody puts it on hold, or lets go."""
        self.history.hold(is_on)

    @rule()
    def somebody_looks_at_the_machine(self) -> None:
        """What nobody knew is known."""
        self.history.settle_unknowns()

    @invariant()
    def everything_holds(self) -> None:
        """After every step."""
        if hasattr(self, "history"):
            self.history.check()

    def teardown(self) -> None:
        """Let it all come to its end."""
        try:
            if hasattr(self, "history"):
                self.history.close()
        finally:
            if hasattr(self, "_folder"):
                self._folder.cleanup()

    # ------------------------------------------------------------------------------------------------------------------
    def _number(self) -> str:
        self._count += 1
        return str(self._count)

    def _say(self, text: str, by: str, arrival: Arrival = Arrival.QUEUE) -> None:
        number = self._number()
        key = f"utterance:ut_{number}" if by == "voice" else f"ask:{by}:{number}"
        self.history.send(key, _saying(text, by, number, self.history.clock.monotonic_ns(), arrival))

    def _other(self, key: str) -> Admit:
        """Return something that uses a key for other content."""
        kind, *names = key.split(":")
        if kind == "utterance":
            return _saying("something else", "voice", names[0].removeprefix("ut_"), 1)
        if kind == "ask":
            return _saying("something else", names[0], names[1], 1)
        source, alarm, activation, change = names
        event = AlarmEvent(source, alarm, activation, AlarmChange(change), -1.0, "K", _SOURCE_UTC)
        return lambda core: core.alarms.door.admit(event)


def _saying(text: str, by: str, number: str, at_ns: int, arrival: Arrival = Arrival.QUEUE) -> Admit:
    def admit(core: Core) -> Any:
        if by == "voice":
            return core.voice_door.admit(Utterance(f"ut_{number}", text, LANGUAGE, "test", None, at_ns, at_ns, at_ns))
        return core.console_door.admit(text, LANGUAGE, by, key=number, arrival=arrival)

    return admit
