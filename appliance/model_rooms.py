"""Builds the language models, if there are any, and the account of what they cost. Read with ``app``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.model import ModelCall
from appliance.contracts.store import Ledger
from appliance.foundation.supervisor import Degraded
from appliance.settings import Settings
from appliance.store import model_calls

if TYPE_CHECKING:
    from drivers.models.chain import ModelChain


def build_model(
    settings: Settings, ledger: Ledger, clock: Clock, ids: IdSource, degraded: Degraded, stack: contextlib.AsyncExitStack
) -> ModelChain | None:
    """Return the models in the order they are tried, or None when none is configured. Every call of one is accounted (A4)."""
    if not settings.language_models:
        return None
    from drivers.models.chain import ModelChain

    async def note(call: ModelCall) -> None:
        await ledger.transaction(lambda tx: model_calls.insert(tx, ids, call))

    chain = ModelChain(settings.language_models, clock, within_s=settings.language_model.within_s, note=note, degraded=degraded)
    stack.push_async_callback(chain.close)
    return chain
