"""Ports: what a test cannot have, or what one room needs of another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from appliance.contracts.admission import Admission, Admitted, Arrival, Request
from appliance.contracts.alarm import Alarm, AlarmEvent, Inhibition, Journalled
from appliance.contracts.alarm_acts import AlarmActs
from appliance.contracts.delivery import Delivery
from appliance.contracts.errors import AlarmUnreadable
from appliance.contracts.memory import MemoryDraft, Recall
from appliance.contracts.operating_acts import OperatingActs
from appliance.contracts.operation import Operation
from appliance.contracts.principal import Principal
from appliance.contracts.reading import Reading, Value, WriteReceipt
from appliance.contracts.speech import Grammar, SpeechReceipt, Utterance
from appliance.contracts.store import Transaction


class FieldBus(Protocol):
    """Reads and writes tags by key ``asset.name``."""

    async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
        """Read now. A tag that cannot be read comes back STALE (last good value, its own time) or BAD; never raises
        for the field's silence.

        Raises:
            Refused: a key is not declared.
        """
        ...

    async def write(self, key: str, value: Value) -> WriteReceipt:
        """Write one declared, writable tag within its limits, then read it back.

        Raises:
            Refused: not declared, not writable or outside its limits; nothing was sent.
            Unavailable: the link is down and nothing was sent.
            Uncertain: the request went out and no answer came.
        """
        ...

    async def probe(self, key: str) -> Mapping[str, Any]:
        """Read one tag and show its raw registers decoded in all four orders: ``{key, wire, raw, type, word_order, value, unit,
        readings}``.

        Raises:
            Refused: not declared, not on a Modbus link, or the device says no.
            Unavailable: the device does not answer.
        """
        ...

    async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
        """Return the newest PLC log entries, newest last: ``{sequence, code, text: {lang: …}, value, at_s}``.

        Raises:
            Unavailable: the PLC does not answer.
            Refused: the plant model declares no event log.
        """
        ...


class Admitter(Protocol):
    """The gate: one durable queue behind every door."""

    async def admit(self, request: Request, also: Callable[[Transaction, Admission], None] | None = None) -> Admitted:
        """Return once the request is on disk. ``also`` runs in the same transaction, for new admissions only.

        Raises:
            Refused: the duplicate key is known with other content.
            Unavailable: the queue is full.
        """
        ...

    def enter(self, tx: Transaction, request: Request) -> Admission:
        """Store a request whose key is known to be new, in the caller's own transaction; :meth:`wake` once it is on disk.

        Raises:
            Unavailable: the queue is full.
        """
        ...

    def wake(self) -> None:
        """Say that something was entered, and is on disk."""
        ...


class AlarmSink(Protocol):
    """Where a source hands an alarm event in."""

    async def admit(self, event: AlarmEvent) -> Journalled:
        """Return only after the event is durable; the source may then acknowledge it to whoever sent it.

        Raises:
            Unavailable: the queue is full or the ledger cannot be written; the source keeps the event and offers it again.
            Refused: the same activation came with other content.
        """
        ...

    async def suppress(self, alarm_id: str, is_suppressed: bool, why: str) -> None:
        """Say that an alarm is suppressed by design from now on, or not any more. The same again changes nothing.

        Raises:
            Unavailable: the ledger cannot be written.
        """
        ...

    async def note_unreadable(self, topic: str, faults: Sequence[AlarmUnreadable]) -> None:
        """Return only after it is durable that a message on a topic held alarms that cannot be taken: one or more ``faults``.

        Raises:
            Unavailable: the ledger cannot be written.
        """
        ...


class AlarmHands(Protocol):
    """Acknowledges and resets in the caller's transaction. ``revision`` is the one a person was shown; None: whatever it is."""

    def acknowledge_in(self, tx: Transaction, activation_id: str, revision: int | None, *, by: str) -> Alarm:
        """Acknowledge an activation.

        Raises:
            Refused: no such activation, it needs no acknowledgement, or it changed since it was shown.
        """
        ...

    def reset_in(self, tx: Transaction, activation_id: str, revision: int | None, *, by: str) -> Alarm:
        """Let go of a latched activation.

        Raises:
            Refused: no such activation, it is not latched, or it changed since it was shown.
        """
        ...


class AlarmShelf(Protocol):
    """Keeps alarms from being announced because a person says so; works inside the caller's transaction."""

    def shelve_in(self, tx: Transaction, alarm_id: str, for_s: float, *, by: str, reason: str) -> object:
        """Shelve an alarm for a time.

        Raises:
            Refused: no such alarm, or longer than the site allows.
            Malformed: no reason, no person or no time.
        """
        ...

    def end_in(self, tx: Transaction, alarm_id: str, kind: Inhibition, *, by: str) -> int:
        """End it; return how many activations are announced now.

        Raises:
            Refused: it does not hold.
        """
        ...


class Mouth(Protocol):
    """Speaks. One delivery at a time; a more urgent one is chosen by the caller, not here."""

    async def say(self, delivery: Delivery) -> SpeechReceipt:
        """Play ``lead`` then ``text`` and return when the last frame was handed to the device.

        Raises:
            Unavailable: no voice process or no device. The fact ``may_have_played`` is true when some of it may have sounded;
                without it nothing was played.
            Malformed: it can never be said (empty, or in a script the voice does not have).
        """
        ...


class Broker(Protocol):
    """Publishes. Messages given one after the other arrive in that order."""

    async def wait_connected(self) -> None:
        """Return as soon as there is a connection to the broker."""
        ...

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Return when the broker has taken the message over. ``retain``: it keeps it as the topic's last.

        Raises:
            Unavailable: not connected, or no acknowledgement in time. With the fact ``may_have_arrived`` the broker may have it,
                without it nothing was sent.
            Refused: the broker will never take it.
        """
        ...


class Ears(Protocol):
    """Hears. Yields utterances for ever, across restarts of the voice process."""

    def utterances(self) -> AsyncIterator[Utterance]:
        """Iterate over what was heard after the wake word or push-to-talk."""
        ...

    async def load_grammar(self, grammar: Grammar, prepared: Sequence[str]) -> None:
        """Set what can be recognised, and sentences whose audio should be ready before they are needed."""
        ...

    async def expect_answer(self, pending: bool) -> None:
        """Tell whether a yes/no question is open, so that short answers are caught."""
        ...


class Recaller(Protocol):
    """The one retrieval entry of memory (M6, M7)."""

    async def recall(self, question: str, *, scope: str, asset: str, fault: str, now: datetime, budget_ms: float) -> Recall:
        """Find memories; ``scope`` is mandatory and inside the search."""
        ...


class MemoryWriter(Protocol):
    """Three-phase write of memory (M5)."""

    async def remember(self, draft: MemoryDraft, *, key: str) -> Mapping[str, Any]:
        """Prepare, validate, commit. ``key`` makes a repeat the same memory. Returns ``{id, tier, duplicate_of}``.

        Raises:
            MemoryWriteRejected: validation said no, with the reason.
            StorageFullError: no room; no draft is left behind.
        """
        ...


class ProcedureStore(Protocol):
    """Procedural memory: a Git repository of playbooks and reports."""

    @property
    def fault(self) -> str:
        """Why nothing can be committed now, in words fit to be spoken; empty when it can."""
        ...

    async def commit_file(self, path: str, content: str, message: str) -> str:
        """Commit one file and return the commit id; the same content again returns the commit that holds it.

        Raises:
            Refused: the path leaves the repository.
            Unavailable: git is missing or fails.
        """
        ...

    async def find_commit(self, path: str, content: str) -> str | None:
        """Return the commit that brought exactly this content, or None."""
        ...


class CoordinatorLink(Protocol):
    """The coordinator as the appliance sees it."""

    async def push(self, operations: Sequence[Operation]) -> Mapping[str, int]:
        """Send one lane's next operations; return ``{lane: highest sequence it holds}``.

        Raises:
            Unavailable: not reached; nothing is known of what arrived, and sending again is harmless.
            Refused: the coordinator does not know this device, or the chain does not fit.
        """
        ...

    async def heads(self) -> Mapping[str, tuple[int, str]]:
        """Return ``{lane: (highest sequence, its hash)}`` of what it holds of this device. Raises as :meth:`push`."""
        ...

    async def pull(self, after: int) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """Return the new cursor and the changes after ``after`` meant for this device, each with its ``position``.

        Raises:
            Unavailable: not reached.
            Refused: the device is not known, or (fact ``reason`` ``cursor_ahead``) the feed ends before ``after``.
        """
        ...

    async def keys(self) -> Mapping[str, Any]:
        """Return the key set its session tokens verify with, as it told it: whoever keeps it checks it first.

        Raises:
            Unavailable: not reached.
            Refused: the coordinator has none: it is older than session tokens.
        """
        ...


class Reachability(Protocol):
    """Whether the coordinator can be reached, as those who try find out."""

    @property
    def is_online(self) -> bool:
        """False from a loss until the coordinator is back."""
        ...

    async def reached(self) -> None:
        """Say that the coordinator answered."""
        ...

    async def missed(self, why: str) -> None:
        """Say that it did not."""
        ...

    async def until_online(self) -> None:
        """Return as soon as :attr:`is_online`."""
        ...


class Wording(Protocol):
    """Turns facts into words a person can hear."""

    def spoken(self, value: Any, language: str) -> str:
        """Say a value. A quantity is a mapping ``{value, unit, decimals, quality, age_s}``: 94.2 degC -> "94 degrees
        Celsius", stale -> "last good value … 14 seconds ago", bad -> "not readable"."""
        ...

    def reply(self, name: str, language: str, **values: Any) -> str:
        """Return the reply sentence ``name`` of the language's phrases with ``{values}`` spoken.

        Raises:
            Malformed: no such reply in this language.
        """
        ...


class Core(Protocol):
    """What the local API may ask of the running core. Every answer is JSON-serialisable."""

    @property
    def alarms(self) -> AlarmActs:
        """What may be asked about alarms."""
        ...

    @property
    def operating(self) -> OperatingActs:
        """What may be asked of the appliance as a whole."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Version, origin, epoch, readiness, degraded parts, links, queue depths."""
        ...

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
        """Inject what ``by`` typed as an utterance; wait up to ``wait_s`` for its turn to end or to ask, or for the core to stop.
        Returns admission, turn, replies.

        Asked again with the same ``key`` (empty: none) it is the same admission and the same turn. ``holder`` is whose token
        verified: then it is that person who asks.

        Raises:
            Refused: the key was used for something else.
            Unavailable: too much waits already.
        """
        ...

    async def speak(self, text: str, language: str) -> Mapping[str, Any]:
        """Queue something to be said; returns the delivery."""
        ...

    async def read_tags(self, keys: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Read tags now (all declared ones when ``keys`` is empty)."""
        ...

    async def probe_tag(self, key: str) -> Mapping[str, Any]:
        """Show a tag's raw registers decoded in every order. Raises as ``FieldBus.probe``."""
        ...

    async def settle(self, identity: str, verdict: str, note: str, by: str) -> Mapping[str, Any]:
        """Settle an unknown effect or admission as ``done``, ``not-done`` or ``interrupted``.

        Raises:
            Refused: no such unknown, or it is settled already.
        """
        ...
