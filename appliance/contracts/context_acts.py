"""What the local API may ask about what a language model is shown (A3, L5). Answers are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ContextActs(Protocol):
    """Looks, and changes nothing: no snapshot is taken for a session that has none."""

    async def context_of(self, session_id: str) -> Mapping[str, Any]:
        """Return what a model would be shown for the newest sentence of a session: ``{session, said, model, context_tokens,
        is_estimated, tokens, reply_tokens, snapshot_utc, playbooks_commit, tools, tiers}``; a tier is ``{tier, tokens, shortened,
        left_out, text}``. ``model`` is empty when none is configured; tokens are then estimates for a small window.

        Raises:
            Refused: no such session.
            Malformed: it fits no window, or the session's language has no phrases.
        """
        ...

    async def stale_contexts(self) -> Mapping[str, Any]:
        """Return ``{running, not_taken_up}``: the running sessions whose snapshot is older than what is in use now, each
        ``{session, lane, taken_utc, commit, commit_now, changed}``, and the names of the playbooks whose files were changed and
        are not in use yet."""
        ...
