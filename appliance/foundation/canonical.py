"""Canonical JSON and digests: the same content always has the same bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(content: Any) -> str:
    """Return JSON with sorted keys and no spaces; NaN is refused (ValueError)."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(content: Any) -> str:
    """Return SHA-256 (hex) of the canonical JSON."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()
