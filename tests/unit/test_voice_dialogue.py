"""The dialogue's table, the floor two threads share, and the half duplex."""

from __future__ import annotations

import itertools
import threading

import pytest

from appliance.contracts.errors import StateViolationError
from voice.dialogue import TRANSITIONS, DialogueEvent, DialogueState, Floor, advance
from voice.half_duplex import HalfDuplex

S = 1_000_000_000


@pytest.mark.req("V4")
@pytest.mark.parametrize(("state", "event"), list(itertools.product(DialogueState, DialogueEvent)))
def test_every_pair_either_moves_as_the_table_says_or_is_refused(state: DialogueState, event: DialogueEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(StateViolationError):
            advance(state, event)


def test_every_state_leads_back_to_idle() -> None:
    for state in DialogueState:
        reached = {state}
        for _ in DialogueState:
            reached |= {to for (of, _), to in TRANSITIONS.items() if of in reached}
        assert DialogueState.IDLE in reached


def test_an_offer_that_does_not_fit_changes_nothing() -> None:
    floor = Floor()
    assert not floor.offer(DialogueEvent.TRANSCRIBED)
    assert floor.state is DialogueState.IDLE


def test_an_answer_waits_for_the_worker_to_finish() -> None:
    floor = Floor()
    floor.offer(DialogueEvent.WOKEN)
    ours = threading.Event()

    def take() -> None:
        floor.wait_for_ours(is_urgent=False, timeout_s=10.0)
        ours.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not ours.wait(0.1)
    floor.offer(DialogueEvent.SPEECH_ENDED)
    floor.offer(DialogueEvent.TRANSCRIBED)
    thread.join(5.0)
    assert ours.is_set()
    assert floor.state is DialogueState.SPEAKING


@pytest.mark.req("V5")
def test_an_alarm_cuts_in() -> None:
    floor = Floor()
    floor.offer(DialogueEvent.WOKEN)
    floor.wait_for_ours(is_urgent=True, timeout_s=0.0)
    assert floor.state is DialogueState.SPEAKING


def test_a_worker_who_never_ends_does_not_hold_the_floor_for_ever() -> None:
    floor = Floor()
    floor.offer(DialogueEvent.WOKEN)
    floor.wait_for_ours(is_urgent=False, timeout_s=0.05)
    assert floor.state is DialogueState.SPEAKING


@pytest.mark.field("FC-V05")
def test_the_microphone_is_closed_while_we_speak_and_a_tail_longer() -> None:
    duplex = HalfDuplex(tail_ms=500)
    assert duplex.is_open(1 * S)
    duplex.begin_speaking(2 * S)
    assert duplex.is_open(2 * S - 1)
    assert not duplex.is_open(2 * S)
    assert not duplex.is_open(100 * S)
    duplex.end_speaking(5 * S)
    assert not duplex.is_open(5 * S + S // 2 - 1)
    assert duplex.is_open(5 * S + S // 2)


@pytest.mark.field("FC-V05")
def test_two_deliveries_in_a_row_leave_no_gap() -> None:
    duplex = HalfDuplex(tail_ms=500)
    duplex.begin_speaking(2 * S)
    duplex.end_speaking(3 * S)
    duplex.begin_speaking(3 * S + S // 10)
    assert not duplex.is_open(3 * S + S // 20)
    duplex.end_speaking(4 * S)
    assert not duplex.is_open(2 * S + S // 2)
    assert duplex.is_open(5 * S)
