"""What the ledger knows when an alarm event comes in, and the rule that decides from it what becomes of the event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from appliance.contracts.alarm import Alarm, AlarmEvent, Disposition, Inhibition


@dataclass(frozen=True, slots=True)
class Situation:
    """The moment before an event is taken in.

    ``alarm`` is the activation it belongs to, None if it begins one; ``is_own`` is False when another source raised that one.
    ``raise_became`` is what became of that activation's raise. ``inhibition`` is the strongest that holds. ``recent_raises``
    counts the alarm's raises within the chatter window, without this one, while it does not chatter.
    """

    alarm: Alarm | None
    is_own: bool
    raise_became: Disposition | None
    inhibition: Inhibition | None
    is_chattering: bool
    recent_raises: int


class DispositionRule(Protocol):
    """Decides what becomes of an event. Pure."""

    @property
    def chatter_window_s(self) -> float:
        """Window in which raises are counted."""
        ...

    @property
    def chatter_calm_s(self) -> float:
        """Without a raise for so long an alarm chatters no more."""
        ...

    def decide(self, event: AlarmEvent, situation: Situation) -> Disposition:
        """Return the event's disposition."""
        ...
