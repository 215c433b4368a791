"""Whatever comes in, goes wrong and dies, in whatever order: nothing is lost, nothing is done twice, no lane is out of order.

The machine is :mod:`crash.machine`; ``python -m crash`` plays many more histories with it.
"""

from __future__ import annotations

import pytest

from crash import random_histories
from crash.machine import RuntimeMachine


@pytest.mark.req("R1", "R2", "R5", "R6", "T6", "T7")
@pytest.mark.field("FC-R01", "FC-R02", "FC-R03", "FC-R04", "FC-R13")
def test_random_histories_lose_nothing_and_do_nothing_twice() -> None:
    random_histories.run(random_histories.QUICK, RuntimeMachine)
