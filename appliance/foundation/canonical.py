"""Canonical JSON and digests: the same content always has the same bytes."""

from __future__ import annotations

import hashlib
import json
import json.encoder
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
# What ``json.dumps`` makes anew for every call, and what takes most of its time with contents as small as ours: nine arguments
# as in json/encoder.py, without the search for circles, which end as RecursionError. None where Python has no C accelerator.
_make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
_chunks: Any = _make_encoder and _make_encoder(
    None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", True, False, False
)


def canonical_json(content: Any) -> str:
    """Return JSON with sorted keys and no spaces; NaN is refused (ValueError)."""
    return "".join(_chunks(content, 0)) if _chunks else _ENCODER.encode(content)


def digest(content: Any) -> str:
    """Return SHA-256 (hex) of the canonical JSON."""
    return digest_of_text(canonical_json(content))


def digest_of_text(text: str) -> str:
    """Return SHA-256 (hex) of JSON that is canonical already."""
    return hashlib.sha256(text.encode()).hexdigest()
