"""Sparkplug B payloads built byte by byte, independently of the product's schema (wire format and numbers of the standard)."""

from __future__ import annotations

import struct
from typing import Any

INT16, INT64, UINT64, FLOAT, DOUBLE, BOOLEAN, STRING = 2, 4, 8, 9, 10, 11, 12
_VALUE = {"int": 10, "long": 11, "float": 12, "double": 13, "bool": 14, "text": 15}


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def metric(
    name: str | None = None, alias: int | None = None, datatype: int | None = None, at_ms: int | None = None, **value: Any
) -> bytes:
    """One metric; the value as ``int=``, ``long=``, ``float=``, ``double=``, ``bool=`` or ``text=``; ``null=True``; ``old=True``
    for a historical one; ``quality=`` as a property."""
    out = block(1, name.encode()) if name is not None else b""
    for field, told in ((2, alias), (3, at_ms), (4, datatype)):
        out += number(field, told) if told is not None else b""
    out += number(5, 1) if value.pop("old", False) else b""
    out += number(7, 1) if value.pop("null", False) else b""
    quality = value.pop("quality", None)
    if quality is not None:
        out += block(9, block(1, b"Quality") + block(2, number(1, 3) + number(3, quality)))
    for kind, told in value.items():
        if kind in ("int", "long", "bool"):
            out += number(_VALUE[kind], int(told))
        elif kind == "text":
            out += block(_VALUE[kind], told.encode())
        else:
            wire, layout = (5, "<f") if kind == "float" else (1, "<d")
            out += varint(_VALUE[kind] << 3 | wire) + struct.pack(layout, told)
    return block(2, out)


def payload(*metrics: bytes, seq: int | None = None, at_ms: int | None = None) -> bytes:
    out = number(1, at_ms) if at_ms is not None else b""
    return out + b"".join(metrics) + (number(3, seq) if seq is not None else b"")
