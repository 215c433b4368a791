"""What the registers of a tag would mean in every order, side by side: for finding out which one a device uses.

In: a tag and its raw registers. Out: JSON for the technician. Who calls: the bus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from struct import unpack
from typing import Any

from appliance.contracts.tag import DataType, Tag, WordOrder
from drivers.modbus.codec import Codec
from drivers.modbus.data_types import register_order

_FLOAT_OF_BYTES = {2: ">e", 4: ">f", 8: ">d"}  # IEEE 754 binary16, binary32, binary64


def probed(tag: Tag, raw: Sequence[int]) -> Mapping[str, Any]:
    """Return ``{key, wire, raw, type, word_order, value, unit, readings}``; raw words are hexadecimal.

    ``readings`` has a row an order: ``{order, hex, unsigned, signed, float, value, is_declared}``. ``value`` is what the tag as
    declared would show in that order; ``float`` and ``value`` are None where they are no number. A number of one register has
    one order only.
    """
    is_text = tag.type is DataType.STRING
    orders = list(WordOrder) if is_text or len(raw) > 1 else [tag.word_order]
    return {
        "key": tag.key,
        "wire": tag.where,
        "raw": [f"0x{word:04X}" for word in raw],
        "type": tag.type,
        "word_order": tag.word_order,
        "value": Codec(tag).decode(raw),
        "unit": tag.unit,
        "readings": [_in_order(tag, order, raw, is_text=is_text) for order in orders],
    }


def _in_order(tag: Tag, order: WordOrder, raw: Sequence[int], *, is_text: bool) -> Mapping[str, Any]:
    wire = register_order(order, len(raw), is_text=is_text).to_bytes(raw)
    return {
        "order": order,
        "hex": wire.hex(" ", 2).upper(),
        "unsigned": None if is_text else int.from_bytes(wire, "big"),
        "signed": None if is_text else int.from_bytes(wire, "big", signed=True),
        "float": None if is_text else _float(wire),
        "value": Codec(tag.model_copy(update={"word_order": order})).decode(raw),
        "is_declared": order is tag.word_order,
    }


def _float(wire: bytes) -> float | None:
    layout = _FLOAT_OF_BYTES.get(len(wire))
    if layout is None:
        return None
    (number,) = unpack(layout, wire)
    return float(number) if isfinite(number) else None
