"""Shows people what a model would be shown (``floorhand context``): the same parts in the same order, made for nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.contracts.model import LanguageModel
from appliance.contracts.plan import Intent
from appliance.contracts.planning import Asked
from appliance.contracts.principal import NOBODY, Principal, principal_of
from appliance.contracts.store import Ledger
from appliance.contracts.tool import ToolContract
from appliance.planning.model.context import Contexts
from appliance.store import conversations

SMALL_WINDOW = 4_096
"""Tokens of the window that is shown when no model is configured: what every prompt has to fit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts for no model in particular."""

    count: Callable[[str], int]
    context_tokens: int = SMALL_WINDOW

    def count_tokens(self, text: str) -> int:
        """Return about how many tokens a text is."""
        return self.count(text)


class ContextView:
    """Implements :class:`appliance.contracts.context_acts.ContextActs`. ``visible`` tells the tools somebody may see,
    ``estimate`` counts tokens while there is no model, ``not_taken_up`` names the playbooks whose edits are not in use."""

    def __init__(
        self,
        ledger: Ledger,
        contexts: Contexts,
        model: LanguageModel | None,
        visible: Callable[[Principal], Mapping[str, ToolContract]],
        estimate: Callable[[str], int],
        language: str,
        not_taken_up: Callable[[], Awaitable[Sequence[str]]],
    ) -> None:
        self._not_taken_up = not_taken_up
        self._ledger = ledger
        self._contexts = contexts
        self._model = model
        self._visible = visible
        self._estimate = estimate
        self._language = language

    async def context_of(self, session_id: str) -> Mapping[str, Any]:
        """As the protocol says."""
        turn = await conversations.newest(self._ledger, session_id)
        who = NOBODY if turn is None else principal_of(turn.context)
        said, language = ("", self._language) if turn is None else (str(turn.context.get("said", "")), turn.language)
        asked = Asked(
            Intent("not_understood", language, said),
            principal=who,
            tools=self._visible(who),
            session_id=session_id,
            turn_id="" if turn is None else turn.id,
        )
        scale = self._model or Estimate(self._estimate)
        made = await self._contexts.of(asked, scale, keep=False)
        taken = made.knowledge.taken_utc
        return {
            "session": session_id,
            "said": said,
            "model": "" if self._model is None else self._model.name,
            "context_tokens": made.context_tokens,
            "is_estimated": self._model is None,
            "tokens": made.tokens,
            "reply_tokens": made.reply_tokens,
            "snapshot_utc": None if taken is None else taken.isoformat(),
            "playbooks_commit": made.knowledge.commit,
            "tools": sorted(made.offer.contracts),
            "tiers": [
                {
                    "tier": tier.name,
                    "tokens": tier.tokens,
                    "shortened": tier.shortened,
                    "left_out": tier.left_out,
                    "text": tier.text,
                }
                for tier in made.tiers
            ],
        }

    async def stale_contexts(self) -> Mapping[str, Any]:
        """As the protocol says."""
        running = await self._contexts.knowledge.stale()
        return {"running": list(running), "not_taken_up": list(await self._not_taken_up())}
