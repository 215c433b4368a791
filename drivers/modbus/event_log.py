"""The PLC's event ring in registers, both ways. Its layout is said in ``contracts/plant.py``, ``EventRing``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from appliance.contracts.plant import EventRing

SLOT_REGISTERS = 4
_COUNT_WRAPS_AT = 2**16
_INT16_SIGN = 2**15
_EMPTY_CODE = 0


def encode_slot(sequence: int, code: int, value: float, at_s: float) -> tuple[int, int, int, int]:
    """Return a slot's registers; ``value`` is kept in tenths as int16, ``sequence`` and ``at_s`` wrap at 65,536."""
    tenths = max(-_INT16_SIGN, min(_INT16_SIGN - 1, round(value * 10)))
    return sequence % _COUNT_WRAPS_AT, code, tenths % _COUNT_WRAPS_AT, int(at_s) % _COUNT_WRAPS_AT


def decode_ring(ring: EventRing, count: int, slots: Sequence[int], newest: int) -> list[Mapping[str, Any]]:
    """Return the ``newest`` entries, newest last: ``{sequence, code, text: {lang: …}, value, at_s}``.

    ``count`` is the running count, ``slots`` the registers of all entries in ring order. The first event has sequence 1.
    Slots that were never written, or that do not belong to the last ``entries`` events before ``count``, are left out.
    """
    languages = {language for text in ring.codes.values() for language in text}
    aged: list[tuple[int, Mapping[str, Any]]] = []
    for start in range(0, len(slots), SLOT_REGISTERS):
        sequence, code, tenths, at_s = slots[start : start + SLOT_REGISTERS]
        age = (count - sequence) % _COUNT_WRAPS_AT
        if code == _EMPTY_CODE or age >= ring.entries:
            continue
        signed = tenths - _COUNT_WRAPS_AT if tenths >= _INT16_SIGN else tenths
        text = ring.codes.get(code) or dict.fromkeys(sorted(languages), f"code {code}")
        aged.append((age, {"sequence": sequence, "code": code, "text": text, "value": signed / 10, "at_s": at_s}))
    aged.sort(key=lambda each: each[0], reverse=True)
    return [entry for _, entry in aged][-newest:] if newest > 0 else []
