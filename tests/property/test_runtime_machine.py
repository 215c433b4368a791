"""Whatever comes in, goes wrong and dies, in whatever order: nothing is lost, nothing is done twice, no lane is out of order.

The machine is :mod:`crash.machine`; ``python -m crash`` plays many more histories with it.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from appliance.delivery.dispatcher import Dispatcher
from crash import random_histories
from crash.history import LEDGER, History
from crash.machine import RuntimeMachine
from crash.sabotage import SABOTAGES


@pytest.mark.req("R1", "R2", "R5", "R6", "T6", "T7")
@pytest.mark.field("FC-R01", "FC-R02", "FC-R03", "FC-R04", "FC-R13")
def test_random_histories_lose_nothing_and_do_nothing_twice() -> None:
    random_histories.run(random_histories.QUICK, RuntimeMachine)


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [("replay", "happened more often than it was intended"), ("unmarked", "went out again without a mark")],
)
def test_the_histories_find_a_fault(monkeypatch: pytest.MonkeyPatch, sabotage: str, says: str) -> None:
    """Put into the product on purpose: an effect that was cut off is done again; what may have been heard is said as if new."""
    spoil, begin = SABOTAGES[sabotage], History._open

    async def begin_spoilt(history: History) -> None:
        spoil(history.folder / LEDGER)
        await begin(history)

    monkeypatch.setattr(History, "_open", begin_spoilt)
    monkeypatch.setattr(Dispatcher, "_as_said", Dispatcher._as_said)  # what is spoilt there is put back
    with pytest.raises(AssertionError, match=says):
        random_histories.run(settings(random_histories.QUICK, phases=[Phase.generate]))


@settings(random_histories.QUICK)
@given(st.integers(0, 100))
def faulty(number: int) -> None:
    assert number < 50, "too many"
    if number > 20:
        raise TimeoutError


def test_every_fault_is_told_with_the_history_that_shows_it() -> None:
    """Hypothesis puts what it found together in a group, and what shows each in the notes of each."""
    with pytest.raises(ExceptionGroup) as found:
        faulty()
    told = {each["fault"].partition(":")[0]: "\n".join(each["history"]) for each in random_histories.each_fault(found.value)}
    assert "number=50" in told["FAULT AssertionError"] and "number=21" in told["TOO SLOW TO TELL"]
    told = {each["fault"]: each["history"] for each in random_histories.each_fault(AssertionError("one"))}
    assert told == {"FAULT AssertionError: one": []}
