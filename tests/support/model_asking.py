"""One model behind a peer, asked once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from appliance.contracts.model import Message, ModelReply, ModelRequest
from appliance.foundation.system_clock import SystemClock
from drivers.models.chat import ChatModel
from drivers.models.failures import CallFailed
from drivers.models.settings import ModelSettings
from tests.support.model_peer import ModelPeer, Play

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PLAN = '{"n": 3, "why": "三号电机"}'
ASK = ModelRequest((Message("system", "You plan."), Message("user", "what is the temperature")), 32, schema=SCHEMA)


@asynccontextmanager
async def chat(peer: ModelPeer, **changes: Any) -> AsyncIterator[ChatModel]:
    model = ChatModel(ModelSettings.model_validate({"name": "peer", "url": peer.url, "model": "m-1"} | changes), SystemClock())
    try:
        yield model
    finally:
        await model.close()


async def ask(peer: ModelPeer, play: Play, *, limit_s: float = 5.0, request: ModelRequest = ASK, **changes: Any) -> ModelReply:
    peer.plays = [play]
    async with chat(peer, **changes) as model:
        return await model.call(request).run(0, limit_s)


async def failing(peer: ModelPeer, play: Play, **how: Any) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await ask(peer, play, **how)
    return caught.value
