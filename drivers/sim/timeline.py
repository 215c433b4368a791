"""Orders waiting for their time, in simulated seconds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count

from drivers.sim.orders import Order

_WITHIN_S = 1e-9  # a sum of steps may end a rounding error before the second that was meant


class Timeline:
    """Hands out orders when their time has come; those of one instant in the order they were put in."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Order, float | None, int | None]] = []
        self._numbers = count()

    def add(self, orders: Iterable[Order], *, repeat_every_s: float | None = None) -> None:
        """Put in orders by their ``at_s``; those that do not repeat by themselves do so ``repeat_every_s``."""
        for order in orders:
            if order.every_s is not None:
                self.put(order.at_s or 0.0, order, order.every_s, order.rounds)
            else:
                self.put(order.at_s or 0.0, order, repeat_every_s, None)

    def put(self, at_s: float, order: Order, every_s: float | None = None, rounds: int | None = None) -> None:
        """Put in one order; ``rounds`` None repeats it for ever."""
        heapq.heappush(self._waiting, (at_s, next(self._numbers), order, every_s, rounds))

    def due(self, now_s: float) -> list[Order]:
        """Return the orders whose time has come, and put repeating ones in again."""
        orders: list[Order] = []
        while self._waiting and self._waiting[0][0] <= now_s + _WITHIN_S:
            at_s, _, order, every_s, rounds = heapq.heappop(self._waiting)
            orders.append(order)
            if every_s is not None and rounds != 1:
                self.put(at_s + every_s, order, every_s, None if rounds is None else rounds - 1)
        return orders
