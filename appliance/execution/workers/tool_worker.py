"""One call of a tool, in a process of its own: what a process forked by the warden does, and then ends.

It leads a session of its own, so that it can be killed with its children; it lives in a scratch folder that is removed after it.
Nothing it prints goes anywhere. On SIGTERM the call is cancelled and may still say what it did.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic_core import to_jsonable_python

from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, Refused, Unavailable, Uncertain
from appliance.contracts.principal import Principal
from appliance.contracts.tool import ToolCall
from appliance.foundation.parent import adopt_orphans, signal_on_parents_death

KINDS: Mapping[str, type[FloorhandError]] = {kind.code: kind for kind in (Refused, Malformed, Unavailable, Uncertain, Corrupt)}
"""Errors of a tool as they cross to the core: by the branch of the tree, which says what the caller may do."""


def work(order: Mapping[str, Any], scratch: str, answer: int, warden: int) -> NoReturn:
    """Make the call and write what came of it to the descriptor ``answer``. Never returns."""
    code = 1
    try:
        os.setsid()
        signal_on_parents_death(signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(code)
        adopt_orphans()  # what its children leave behind is then the warden's to kill
        _shut_in(scratch, answer)
        for told_to_all in (signal.SIGINT, signal.SIGTERM):
            signal.signal(told_to_all, signal.SIG_DFL)
        said = json.dumps(asyncio.run(_call(order))).encode()
        while said:
            said = said[os.write(answer, said) :]
        code = 0
    finally:
        os._exit(code)


def _shut_in(scratch: str, answer: int) -> None:
    """Leave everything of the warden's behind except the way to answer."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    top = max(int(each.name) for each in Path("/proc/self/fd").iterdir()) + 1
    os.closerange(3, answer)
    os.closerange(answer + 1, top)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch)


async def _call(order: Mapping[str, Any]) -> Mapping[str, Any]:
    running = asyncio.ensure_future(_answer(order))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait({running})
    if running.cancelled():
        return {"cancelled": True}
    match running.exception():
        case None:
            return running.result()
        case FloorhandError() as error:
            kind = next(kind for kind, branch in KINDS.items() if isinstance(error, branch))
            return {"error": kind, "message": error.message, "retry_after_s": getattr(error, "retry_after_s", 1.0)}
        case TimeoutError():
            return {"timeout": True}
        case fault:  # a mistake in the tool is told: nobody would see it here
            return {"fault": f"{type(fault).__name__}: {fault}"}


async def _answer(order: Mapping[str, Any]) -> Mapping[str, Any]:
    module, _, name = str(order["where"]).partition(":")
    tool = getattr(importlib.import_module(module), name)(**order["init"])
    told = order["call"]
    call = ToolCall(**{**told, "principal": Principal.from_json(told["principal"])})
    arguments = tool.contract.schema.arguments.model_validate(call.arguments)
    if order["what"] == "verify":
        disposition, evidence = await tool.verify(call, arguments)
        return {"disposition": str(disposition), "value": to_jsonable_python(dict(evidence))}
    return {"value": to_jsonable_python(dict(await tool.run(call, arguments)))}
