"""The error tree: each class says what the caller may do next.

FloorhandError
├── Refused            tell the person; trying again changes nothing
│   ├── StateViolationError     an illegal turn transition
│   ├── MemoryWriteRejected     a memory draft failed validation
│   ├── OwnedElsewhere          another core owns this database
│   ├── Unidentified            the session token does not say who asks
│   ├── NotPermitted            it is known who asks, and they may not
│   └── RecursiveCallPrevented  a tool re-entered in one call path
├── Malformed          bad input: drop, count, say what and where
│   ├── ConfigError             names file, key and cure
│   ├── ToolValidationError     names the field of a tool contract
│   │   └── BrokenResult        a tool did not keep its result contract
│   └── CycleDetected           tool dependencies form a cycle
├── Unavailable        try again after ``retry_after_s``
│   └── StorageFullError        no room left on the data partition
├── Fault              a mistake in a program: what was under way has failed; the log has its traceback
├── Uncertain          a field write may have happened: read back, never resend
└── Corrupt            stop and set the damaged thing aside
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self


class FloorhandError(Exception):
    """Root of all errors that cross a room's boundary. ``facts`` are for records, the message is for people.

    ``cure`` says what a person may do about it: the fact of that name, else ``usual_cure`` of the class, else nothing.
    """

    code = "floorhand.error"
    usual_cure = ""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts
        self.cure = str(facts.get("cure") or self.usual_cure)

    def worded(self, reply: str, **words: object) -> Self:
        """Name the reply that says this to people in their language, with its values. A driver knows no phrases: it names one."""
        self.facts |= {"reply": reply, "words": words}
        return self

    @property
    def reply(self) -> str:
        """The name :meth:`worded` gave, empty when only the message says it."""
        return str(self.facts.get("reply") or "")

    @property
    def words(self) -> Mapping[str, Any]:
        """The values :meth:`worded` gave."""
        words = self.facts.get("words")
        return words if isinstance(words, Mapping) else {}


class Refused(FloorhandError):
    """The request is understood and will not be done; the message is the reason to say."""

    code = "refused"


class StateViolationError(Refused):
    """A turn was asked to make a transition its table does not have."""

    code = "state_violation"


class MemoryWriteRejected(Refused):
    """A memory draft was dropped by validation."""

    code = "memory_write_rejected"


class OwnedElsewhere(Refused):
    """Another living core owns the database; facts name its pid and instance."""

    code = "owned_elsewhere"
    usual_cure = "Stop the other process; `floorhand doctor` says more."


class Unidentified(Refused):
    """A session token that is not taken: it does not verify, has ended or was revoked. Fact ``reason`` is a word for programs."""

    code = "unidentified"
    usual_cure = "Have a new token made: `floorhand token make`, or the coordinator's administrator."


class NotPermitted(Refused):
    """It is known who asks, and they may not: a token for another device or role, or more than the asker may hand out."""

    code = "not_permitted"


class RecursiveCallPrevented(Refused):
    """A tool was called again inside its own call path."""

    code = "recursive_call_prevented"


class Malformed(FloorhandError):
    """Input that cannot be understood; nothing was changed."""

    code = "malformed"


class AlarmUnreadable(Malformed):
    """An alarm that came and cannot be taken. ``source`` and ``sequence`` are its own, as far as they could be read.

    ``is_state``: it was true before (a retained message), so the same may come again.
    """

    code = "alarm_unreadable"

    def __init__(
        self, message: str, *, source: str = "", sequence: int | None = None, is_state: bool = False, **facts: object
    ) -> None:
        super().__init__(message, **facts)
        self.source = source
        self.sequence = sequence
        self.is_state = is_state


class ConfigError(Malformed):
    """Configuration that cannot be used. Facts: ``file``, ``key``, ``cure``."""

    code = "config"

    def __init__(self, message: str, *, file: str, key: str, cure: str) -> None:
        stop = "" if message.endswith((".", "?", "!")) else "."
        super().__init__(f"{file}: {key}: {message}{stop} {cure}", file=file, key=key, cure=cure)
        self.file, self.key, self.cure = file, key, cure


class ToolValidationError(Malformed):
    """A tool's contract or a call's arguments are wrong. Facts: ``tool``, ``field``."""

    code = "tool_validation"


class BrokenResult(ToolValidationError):
    """A tool answered what its result contract does not allow. Facts as of its parent."""

    code = "broken_result"


class CycleDetected(Malformed):
    """Tool dependencies form a cycle; the message spells it ``A->B->A``."""

    code = "cycle_detected"


class Unavailable(FloorhandError):
    """The other side cannot be had now. Nothing was changed there."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_s: float = 1.0, **facts: object) -> None:
        super().__init__(message, retry_after_s=retry_after_s, **facts)
        self.retry_after_s = retry_after_s


class StorageFullError(Unavailable):
    """The data partition has no room; the cure is to free space."""

    code = "storage_full"
    usual_cure = "Free space on the data partition; trying again alone changes nothing."


class Fault(FloorhandError):
    """Something broke that no error of the contracts describes: a mistake in our own program, or in a tool's.

    ``why`` names it in one line; it may have happened at any point of what was under way.
    """

    code = "fault"
    usual_cure = "The log has all of it; please report it. Trying again alone changes nothing."

    def __init__(self, why: str, **facts: object) -> None:
        super().__init__(f"a fault of mine, the log has it: {why}", **facts)
        self.why = why
        self.is_counted = False
        self.worded("own_fault")


class Uncertain(FloorhandError):
    """An effect may or may not have happened. Read back; never send it again blindly."""

    code = "uncertain"


class Corrupt(FloorhandError):
    """Stored bytes do not verify. Stop using them and set them aside."""

    code = "corrupt"
    usual_cure = "Run `floorhand doctor`; it says what is damaged."
