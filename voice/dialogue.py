"""Who is talking: a state machine of the one conversation at this machine, and the floor that is taken in turns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import StrEnum

from appliance.contracts.errors import StateViolationError


class DialogueState(StrEnum):
    """IDLE waits for the wake word. LISTENING follows it. TRANSCRIBING ends the recognition. SPEAKING is ours."""

    IDLE = "idle"
    LISTENING = "listening"
    TRANSCRIBING = "transcribing"
    SPEAKING = "speaking"


class DialogueEvent(StrEnum):
    """What moves it. CUT_IN is speech so urgent that it does not wait for the worker to finish."""

    WOKEN = "woken"
    SPEECH_ENDED = "speech_ended"
    TRANSCRIBED = "transcribed"
    SPEAK = "speak"
    CUT_IN = "cut_in"
    SPOKEN = "spoken"


S, E = DialogueState, DialogueEvent
TRANSITIONS: Mapping[tuple[DialogueState, DialogueEvent], DialogueState] = {
    (S.IDLE, E.WOKEN): S.LISTENING,
    (S.IDLE, E.SPEAK): S.SPEAKING,
    (S.IDLE, E.CUT_IN): S.SPEAKING,
    (S.LISTENING, E.SPEECH_ENDED): S.TRANSCRIBING,
    (S.LISTENING, E.CUT_IN): S.SPEAKING,
    (S.TRANSCRIBING, E.TRANSCRIBED): S.IDLE,
    (S.TRANSCRIBING, E.CUT_IN): S.SPEAKING,
    (S.SPEAKING, E.SPOKEN): S.IDLE,
}
del S, E


def advance(state: DialogueState, event: DialogueEvent) -> DialogueState:
    """Return the next state.

    Raises:
        StateViolationError: the table has no such transition.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise StateViolationError(f"a dialogue in {state} cannot take {event}", state=state, event=event)
    return following


class Floor:
    """Gives the floor to the worker or to us. Used by the listening and by the speaking thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._state = DialogueState.IDLE

    @property
    def state(self) -> DialogueState:
        """The state now."""
        return self._state

    def offer(self, event: DialogueEvent) -> bool:
        """Take the transition if the table has it now; return whether it was taken.

        The other thread may have moved the state in between, so an event that no longer fits is no fault.
        """
        with self._changed:
            following = TRANSITIONS.get((self._state, event))
            if following is None:
                return False
            self._state = following
            self._changed.notify_all()
            return True

    def wait_for_ours(self, *, is_urgent: bool, timeout_s: float) -> None:
        """Return in SPEAKING: at once when urgent, else when the worker has finished, at the latest after ``timeout_s``."""
        event = DialogueEvent.CUT_IN if is_urgent else DialogueEvent.SPEAK
        with self._changed:
            self._changed.wait_for(lambda: (self._state, event) in TRANSITIONS, timeout=timeout_s)
            if (self._state, event) not in TRANSITIONS:
                event = DialogueEvent.CUT_IN
            self._state = advance(self._state, event)
            self._changed.notify_all()
