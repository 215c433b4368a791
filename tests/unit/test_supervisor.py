"""The supervisor restarts what fails, names it, and passes cancellation on."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from appliance.foundation import supervisor
from appliance.foundation.supervisor import Degraded, supervise
from appliance.foundation.system_clock import SystemClock


@pytest.mark.req("R8")
async def test_a_failed_service_is_named_restarted_and_named_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_RECOVERED_AFTER_S", 0.01)
    degraded = Degraded()
    changes: list[tuple[str, str]] = []
    recovered = asyncio.Event()

    def note(part: str, why: str) -> None:
        changes.append((part, why))
        if not why:
            recovered.set()

    degraded.listeners.append(note)
    starts = 0

    async def service() -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise OSError("no such device")
        await asyncio.Event().wait()

    task = asyncio.create_task(supervise("ears", service, SystemClock(), degraded))
    async with asyncio.timeout(10):
        await recovered.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert starts == 2
    assert changes == [("ears", "OSError: no such device"), ("ears", "")]
    assert degraded.reasons == {}
