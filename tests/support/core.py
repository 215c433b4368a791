"""A core that answers from what the test put into it, and a ledger with one told story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.admission import Arrival
from appliance.contracts.errors import Refused
from appliance.contracts.principal import Principal
from appliance.contracts.store import Transaction

AT = "2026-03-02T08:00:00.000000+00:00"


_CONTEXT = """{"said": "set it", "heard": {"admission": "ad_1", "intent": "set_tag", "ms": 412.5},
    "answers": [{"admission": "ad_2", "intent": "confirm", "ms": 300.0}]}"""


class StandInCore:
    """Implements ``contracts.ports.Core`` in memory. What is asked about alarms goes to ``alarms``, else to ``operating``."""

    def __init__(self, alarms: Any = None, operating: Any = None) -> None:
        self.ready = True
        self.degraded: dict[str, str] = {}
        self.facts: dict[str, Any] = {}
        self.asked: list[tuple[str, str, float]] = []
        self.joined: list[tuple[str, Arrival]] = []
        self.asked_by: list[tuple[str, Principal | None]] = []
        self.spoken: list[tuple[str, str]] = []
        self.settled: list[tuple[str, str, str, str]] = []
        self.fails_with: Exception | None = None
        self.outcome: str | None = "done"
        self.status_of_asked = "terminal"
        self.turn: str | None = "tr_1"
        self.state = "idle"
        self.failure = ""
        self.quality = "good"
        self.alarms = alarms
        self.operating = operating

    def status(self) -> Mapping[str, Any]:
        return {"version": "0", "ready": self.ready, "degraded": dict(self.degraded), "turns_running": 0} | self.facts

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
        self._fail()
        self.asked_by.append((by, holder))
        self.asked.append((text, language, wait_s))
        self.joined.append((key, arrival))
        answer = {"admission": "ad_1", "status": self.status_of_asked, "outcome": self.outcome, "turn": self.turn}
        answer |= {"state": self.state if self.turn else None, "failure": self.failure}
        return answer | {"intent": "read_tag", "replies": ["94 degrees [Celsius]"]}

    async def speak(self, text: str, language: str) -> Mapping[str, Any]:
        self._fail()
        self.spoken.append((text, language))
        return {"delivery": "dl_1", "status": "pending"}

    async def read_tags(self, keys: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        self._fail()
        return [{"key": key, "value": 94.2, "unit": "degC", "quality": self.quality} for key in keys or ["motor_3.temperature"]]

    async def probe_tag(self, key: str) -> Mapping[str, Any]:
        self._fail()
        row = {"order": "CDAB", "hex": "42BC 6666", "unsigned": 1119643238, "float": 94.2, "is_declared": True}
        return {"key": key, "wire": "input_register 2-3 of device 1 on line_3", "raw": ["0x6666", "0x42BC"], "readings": [row]}

    async def settle(self, identity: str, verdict: str, note: str, by: str) -> Mapping[str, Any]:
        if identity != "ac_2":
            raise Refused(f"nothing unknown is called {identity}", id=identity)
        self.settled.append((identity, verdict, note, by))
        return {"id": identity, "status": "applied"}

    def _fail(self) -> None:
        if self.fails_with is not None:
            raise self.fails_with


def tell_story(tx: Transaction) -> None:
    """Write one alarm's conversation with an unknown write, a question, a work order and operations."""
    run = tx.execute
    run("INSERT INTO owner VALUES (1, 'in_1', 100, '5', 'boot-1', ?, NULL)", (AT,))
    for number, status, outcome in ((1, "terminal", "done"), (2, "unknown", None)):
        run(
            """INSERT INTO admission VALUES (?, ?, 'voice', 'utterance', 'speaker:floor', ?, 'd', '{"text": "set it"}', 6, ?, ?,
               1, NULL, 'tr_1', ?, 5, 'boot-1', 1, NULL, 'queue')""",
            (number, f"ad_{number}", f"k{number}", status, outcome, AT),
        )
    run("INSERT INTO session VALUES ('se_1', 'asset:motor_3', 'motor_3', 'open', ?, NULL)", (AT,))
    run(
        """INSERT INTO turn (id, session_id, admission_id, lane, language, state, intent, plan, context, blocking_reason, failure,
           state_hash, lifespan_s, offline, opened_utc, updated_utc)
           VALUES ('tr_1', 'se_1', 'ad_1', 'asset:motor_3', 'en', 'confirming', 'set_tag', '{"steps": []}', ?, '', '', 'h', 120.0,
           1, ?, ?)""",
        (_CONTEXT, AT, AT),
    )
    steps = (("read", "read_tags", "done"), ("write", "write_tag", "unknown"), ("confirm", "ask", "waiting"))
    for position, (step, tool, state) in enumerate(steps):
        run(
            """INSERT INTO action (id, turn_id, position, step_id, tool, arguments, condition, optional, state)
               VALUES (?, 'tr_1', ?, ?, ?, '{}', '', 0, ?)""",
            (f"ac_{position + 1}", position, step, tool, state),
        )
    run(
        """INSERT INTO effect VALUES (1, 'ac_2', 'tr_1', 'write_tag', '{"value": 80}', 'unknown', 1, NULL, '', NULL, 1, ?,
           NULL)""",
        (AT,),
    )
    run(
        """INSERT INTO delivery (seq, id, channel, turn_id, language, lead, text, priority, status, attempts, queued_utc,
               queued_mono_ns, boot_id, first_audio_mono_ns, ended_utc, clock_synced, ended_mono_ns, ended_boot_id)
           VALUES (1, 'dl_1', 'speech', 'tr_1', 'en', 'Question.', 'Shall I?', 6, 'delivered', 1, ?, 5, 'boot-1', 9, ?, 1, 9,
               'boot-1')""",
        (AT, AT),
    )
    run(
        """INSERT INTO confirmation (id, turn_id, action_id, question, status, delivery_id, asked_seq, asked_utc)
           VALUES ('cf_1', 'tr_1', 'ac_3', 'Shall I?', 'pending', 'dl_1', 1, ?)""",
        (AT,),
    )
    for number, state in ((1, "normal"), (2, "unacknowledged")):
        run(
            """INSERT INTO alarm (activation_id, alarm_id, source, asset, priority, state, value, unit, session_id, raised_utc,
                   raised_mono_ns, raised_after)
               VALUES (?, 'motor_3_hot', 'plc', 'motor_3', 'high', ?, 94.2, 'degC', 'se_1', ?, 5, 0)""",
            (f"plc:hot:{number}", state, AT),
        )
    run("INSERT INTO work_order VALUES (1, 'wo_1', 'tr_1', 'motor_3', 'Check the fan', '', NULL, 'open', ?)", (AT,))
    run("INSERT INTO operation_head VALUES ('P0', 7, 'h', 5), ('P1', 2, 'h', 2)")
