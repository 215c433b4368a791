"""What the commands cannot do by asking the service; handed in by ``appliance.__main__``, which alone knows both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Shown = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LocalActions:
    """Local actions. ``Path`` arguments are configuration folders; those that read one raise ConfigError.

    ``examine`` returns the doctor's findings ``{check, ok, detail, cure}``; ``check_config`` and ``show_config`` return the
    validated settings with secrets hidden; ``coordinator`` takes the coordinator's settings by name; ``plant`` takes a command of
    the simulated plant and its options by name, and returns what it answers; ``walk_audit`` takes the data folder of an appliance
    that does not run and yields each verified slice as ``OperatingActs.verify_audit`` answers.
    """

    find_socket: Callable[[Path], Path]
    run: Callable[[Path], int]
    coordinator: Callable[[Shown], int]
    check_config: Callable[[Path], Shown]
    show_config: Callable[[Path], Shown]
    examine: Callable[[Path], Sequence[Shown]]
    list_models: Callable[[Path], Sequence[Shown]]
    find_models_dir: Callable[[Path], Path]
    plant: Callable[[str, Shown], Any]
    walk_audit: Callable[[Path], Iterable[Shown]]
