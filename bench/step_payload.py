"""What every step carries, whoever runs it."""

from __future__ import annotations

PAYLOAD = "x" * 100
"""A hundred characters: about what a call and its answer say."""
