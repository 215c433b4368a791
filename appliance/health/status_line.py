"""The one line of the core for ``systemctl status``: what somebody who looks there first must not miss."""

from __future__ import annotations

from collections.abc import Sequence


def status_line(epoch: int, *, on_hold: bool, is_draining: bool, degraded: Sequence[str], needs_attention: Sequence[str]) -> str:
    """Return the line: hold and drain first, then what is degraded, then the epoch."""
    parts = ["ON HOLD"] if on_hold else []
    parts += ["draining"] if is_draining else []
    parts += [f"needs attention: {', '.join(sorted(needs_attention))}"] if needs_attention else []
    rest = sorted(set(degraded) - set(needs_attention))
    parts += [f"degraded: {', '.join(rest)}"] if rest else []
    return "; ".join([*parts, f"epoch {epoch}"])
