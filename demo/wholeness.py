"""Waits for a core that starts for as long as anything moves: a small or a busy machine takes its time, a stuck one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from demo.core_client import CoreClient

Note = Callable[[str], None]

NOTHING_MOVED_S = 240.0
"""A start in which nothing moved for so long is stuck. The longest single step is to load the speech models: some 10 s on a
Raspberry Pi, and ten times that on a machine that does other things."""
MOST_S = 3600.0
"""No start takes longer, however it moves."""
_TOLD_EVERY_S = 5.0


def missing(status: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return what a core still has to load, in words; ``status`` None: it does not answer yet."""
    if status is None:
        return ("an answer from the core",)
    voice = status["voice"]
    left = voice.get("to_prepare", 0)
    is_begun = voice.get("prepared", 0) > 0 or left > 0
    lacking = {
        "the core ready": not status["ready"],
        "the ears": not voice["hearing"],
        "the mouth": not voice["speaking"],
        f"the sound of {left} fixed sentences" if is_begun else "the sound of the fixed sentences": left > 0 or not is_begun,
        "the memory's sentence encoder": not status["memory_knows_likeness"],
    }
    return tuple(what for what, is_missing in lacking.items() if is_missing)


async def wait_until_whole(
    client: CoreClient,
    *,
    note: Note,
    log: str,
    still: Callable[[], bool],
    only_ready: bool = False,
    nothing_moved_s: float = NOTHING_MOVED_S,
    most_s: float = MOST_S,
) -> None:
    """Ask until a core is ready and has loaded everything else, too; ``only_ready``: until it is ready. ``note`` is told every
    few seconds what is missing, ``log`` is where the core writes, ``still`` says whether it runs.

    Raises:
        TimeoutError: nothing moved for ``nothing_moved_s``, or it took ``most_s``; the message says what is missing.
        RuntimeError: the core ended.
    """
    loop = asyncio.get_running_loop()
    began_s = moved_s = told_s = loop.time()
    seen: object = None
    lacking = missing(None)
    while True:
        try:
            status = await client.get("/v1/status")
        except httpx.HTTPError:
            status = None
        if status is not None and status["ready"] and (only_ready or not missing(status)):
            return
        lacking, now_s = missing(status), loop.time()
        state = (lacking, None if status is None else status["voice"].get("prepared"))
        if state != seen:
            seen, moved_s = state, now_s
        words = ", ".join(lacking)
        if not still():
            raise RuntimeError(f"the core ended while it started; still missing: {words}; see {log}")
        if now_s - moved_s > nothing_moved_s:
            raise TimeoutError(f"the start is stuck: nothing moved for {nothing_moved_s:g} s; still missing: {words}; see {log}")
        if now_s - began_s > most_s:
            raise TimeoutError(f"the start took over {most_s:g} s; still missing: {words}; see {log}")
        if now_s - told_s > _TOLD_EVERY_S:
            told_s = now_s
            note(f"the core starts; still missing: {words}")
        await asyncio.sleep(0.1)  # another process' state: there is nothing to wait on but asking again
