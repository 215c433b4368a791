"""The command line as the shell sees it, for tests: one command, its exit code, output and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from appliance.__main__ import main

Run = Callable[..., Awaitable[tuple[int, str, str]]]

SHIPPED = Path(__file__).parents[2] / "config"


def command_line(monkeypatch: pytest.MonkeyPatch, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs one command on a thread of its own, with the shipped configuration and a data folder."""
    monkeypatch.setenv("FLOORHAND_CONFIG", str(SHIPPED))
    monkeypatch.setenv("FLOORHAND_DATA", str(data_dir))

    async def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, list(arguments))
        told = capsys.readouterr()
        return code, told.out, told.err

    return command
