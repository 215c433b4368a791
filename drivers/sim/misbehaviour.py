"""Which request is answered badly, and how its answer is spoilt. Counting and bytes only; the PLC sends them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from appliance.contracts.clock import Clock
from drivers.sim.framing import Frame, Framing
from drivers.sim.orders import Misbehave, Mode

# The neighbour a confused device would answer as: the same kind of answer, so that nothing but the number gives it away.
_OTHER_FUNCTION = {1: 2, 2: 1, 3: 4, 4: 3, 5: 6, 6: 5, 15: 16, 16: 15, 22: 6}
_READ_BITS, _READ_WORDS = (1, 2), (3, 4)


@dataclass(slots=True)
class _Under:
    """A misbehaviour under way."""

    told: Misbehave
    until_ns: int | None
    times_left: int | None
    well_left: int


class Misbehaviours:
    """Those of one link. The first that fits a request applies to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: list[_Under] = []

    def begin(self, told: Misbehave) -> None:
        """Start one."""
        until_ns = None if told.for_s is None else self._clock.monotonic_ns() + int(told.for_s * 1e9)
        self._running.append(_Under(told, until_ns, told.times, told.after))

    def end(self, device_id: int | None) -> None:
        """End all, or those of one device."""
        self._running = [each for each in self._running if device_id is not None and each.told.device_id != device_id]

    def take(self, frame: Frame, *, is_write: bool) -> Misbehave | None:
        """Return what befalls this request, and count it; None: it is answered well."""
        now_ns = self._clock.monotonic_ns()
        self._running = [each for each in self._running if each.until_ns is None or now_ns < each.until_ns]
        for each in self._running:
            if not _fits(each.told, frame, is_write=is_write):
                continue
            if each.well_left:
                each.well_left -= 1
                continue
            each.well_left = each.told.after
            if each.times_left is not None:
                each.times_left -= 1
                if not each.times_left:
                    self._running.remove(each)
            return each.told
        return None


def _fits(told: Misbehave, frame: Frame, *, is_write: bool) -> bool:
    if told.device_id not in (None, frame.device_id) or told.on not in ("any", "write" if is_write else "read"):
        return False
    return told.mode is not Mode.SHORT_REPLY or frame.pdu[0] in (*_READ_BITS, *_READ_WORDS)


def spoil(mode: Mode, answer: Frame, framing: Framing, chance: random.Random) -> bytes:
    """Return the bytes to send for ``answer`` in a mode that changes bytes; unchanged in the others."""
    pdu = answer.pdu
    match mode:
        case Mode.SHORT_REPLY if pdu[0] in (*_READ_BITS, *_READ_WORDS):
            kept = pdu[2 : -1 if pdu[0] in _READ_BITS else -2]
            return framing.pack(replace(answer, pdu=bytes([pdu[0], len(kept)]) + kept))
        case Mode.WRONG_FUNCTION if pdu[0] in _OTHER_FUNCTION:
            return framing.pack(replace(answer, pdu=bytes([_OTHER_FUNCTION[pdu[0]]]) + pdu[1:]))
        case Mode.WRONG_TRANSACTION:
            return framing.pack(replace(answer, transaction=(answer.transaction + 1) % 2**16))
        case Mode.WRONG_UNIT:
            return framing.pack(replace(answer, device_id=(answer.device_id + 1) % 256))
        case Mode.GARBAGE:
            return chance.randbytes(len(framing.pack(answer)))
        case Mode.TRUNCATED | Mode.RESET:
            whole = framing.pack(answer)
            return whole[: len(whole) // 2]
        case Mode.BAD_CRC:
            whole = framing.pack(answer)
            return whole[:-1] + bytes([whole[-1] ^ 0xFF])
        case _:
            return framing.pack(answer)
