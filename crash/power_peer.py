"""A process that is given orders and answers them in turn, one JSON line each."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self


class Peer:
    """``python -m <module>``. One order may be under way while the caller does something else."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def order(self, line: str) -> None:
        """Give an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the answer to the order under way.

        Raises:
            RuntimeError: the process ended instead; it said why on standard error.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, line: str) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self.order(line)
        return self.answer()
