"""The whole reference story as `make demo` runs it: real broker, plant, coordinator, core, and a worker who is only audio."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_WITHIN_S = 900.0  # it takes about 150 s on two idle cores; most of that is speech at its own pace


@pytest.mark.req("P1", "P2", "P4", "A1", "M3", "M4", "V1", "V2", "V3", "V4", "V5", "F4", "T7", "Y1")
async def test_the_story_is_told_and_every_promise_kept(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with (tmp_path / "told.txt").open("wb") as told:
        story = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "demo", "--folder", str(folder), cwd=ROOT, stdout=told, stderr=told
        )
    try:
        async with asyncio.timeout(_WITHIN_S):
            code = await story.wait()
    finally:
        if story.returncode is None:
            story.terminate()
            await story.wait()
    lines = (tmp_path / "told.txt").read_text(encoding="utf-8").splitlines()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert (code, summary["ok"]) == (0, True), summary.get("why", "") + "\n" + "\n".join(lines[-40:])
    assert json.loads(lines[-1]) == summary
    assert [intent["intent"] for intent in summary["intents"]] == [
        "confirm", "read_tag", "set_tag_to_limit", "confirm", "deny", "set_tag", "confirm"
    ]  # fmt: skip
    assert (folder / "speech.wav").stat().st_size > 1_000_000  # well over 20 s of speech
