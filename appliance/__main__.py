"""``floorhand`` and ``python -m appliance``: the one place that knows both the commands and what they start."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. ``--version`` loads nothing else."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"floorhand {VERSION}\n")
        return 0
    import os

    from appliance.cli.actions import LocalActions
    from appliance.cli.main import run_cli

    def find_socket(folder: Path) -> Path:
        from appliance.settings import find_socket

        return find_socket(folder, os.environ)

    def find_models_dir(folder: Path) -> Path:
        from appliance.settings import MODELS_FOLDER, find_data_dir

        return find_data_dir(folder, os.environ) / MODELS_FOLDER

    actions = LocalActions(
        find_socket=find_socket,
        run=_run,
        coordinator=_coordinate,
        check_config=_check_config,
        show_config=_show_config,
        examine=_examine,
        list_models=_list_models,
        find_models_dir=find_models_dir,
        plant=_plant,
        walk_audit=_walk_audit,
    )
    return run_cli(actions, arguments)


def _run(folder: Path) -> int:
    """Serve until told to stop.

    Raises:
        ConfigError: neither the configuration nor its last good copy can be used, or the data folder cannot.
        FloorhandError: what ended the service, one named problem even when several parts met it at once.
    """
    import asyncio
    import os

    from appliance.contracts.errors import Unavailable
    from appliance.data_folder import FILES_UMASK, first_fault, prepare_data_folder, storage_fault
    from appliance.foundation.log import start_logging
    from appliance.settings_last_good import settings_for_service

    os.umask(FILES_UMASK)
    start_logging("info")
    settings = settings_for_service(folder, os.environ)
    start_logging(settings.log_level)
    try:
        prepare_data_folder(settings.data_dir)
    except Unavailable as away:
        from appliance.failed_start import tell_failed_start

        asyncio.run(tell_failed_start(settings, away))
        raise
    from appliance.app import serve

    try:
        return asyncio.run(serve(settings))
    except BaseExceptionGroup as group:
        if (fault := first_fault(group, settings.data_dir)) is None:
            raise
        raise fault from group
    except OSError as error:
        if (fault := storage_fault(error, settings.data_dir)) is None:
            raise
        raise fault from error


def _coordinate(given: Mapping[str, Any]) -> int:
    """Serve as the coordinator until told to stop; says its port in one JSON line once it listens."""
    import asyncio
    import json

    from pydantic import ValidationError

    from appliance.contracts.errors import ConfigError
    from appliance.coordinator.service import serve
    from appliance.coordinator.settings import CoordinatorSettings
    from appliance.foundation.invalid_input import words_of
    from appliance.foundation.log import start_logging

    try:
        settings = CoordinatorSettings(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or "options"
        raise ConfigError(words_of(first), file="floorhand coordinator", key=key, cure="See --help.") from error

    def ready(port: int) -> None:
        sys.stdout.write(json.dumps({"event": "ready", "host": settings.host, "port": port}) + "\n")
        sys.stdout.flush()

    start_logging("info")
    asyncio.run(serve(settings, ready=ready))
    return 0


def _plant(command: str, given: Mapping[str, Any]) -> Any:
    """Do a command of the simulated plant."""
    from drivers.sim.commands import COMMANDS

    return COMMANDS[command](given)


def _check_config(folder: Path) -> Mapping[str, Any]:
    import os

    from appliance.settings_last_good import check_settings
    from appliance.settings_rules import warnings_of

    settings = check_settings(folder, os.environ)
    told = {"folder": str(settings.folder), "languages": settings.languages, "tags": len(settings.plant.tags)}
    return {**told, "warnings": warnings_of(settings)}


def _show_config(folder: Path) -> Mapping[str, Any]:
    import os

    from appliance.settings import load_settings

    shown: dict[str, Any] = load_settings(folder, os.environ).model_dump(mode="json")
    return shown


def _examine(folder: Path) -> Sequence[Mapping[str, Any]]:
    import os
    from dataclasses import asdict

    from appliance.foundation.system_clock import SystemClock
    from appliance.health.doctor import examine
    from appliance.settings_subject import subject_of

    return [asdict(finding) for finding in examine(subject_of(folder, os.environ), SystemClock())]


def _walk_audit(data_dir: Path) -> Iterator[Mapping[str, Any]]:
    """Verify the log of an appliance that does not run, with its lock held so that none starts meanwhile."""
    from appliance.contracts.errors import Refused
    from appliance.settings import DATABASE_FILE
    from appliance.store.audit_check import walk_file
    from appliance.store.lock import FileLock

    path = data_dir / DATABASE_FILE
    if not path.exists():
        raise Refused(f"there is no ledger at {path}", cure="Name the data folder of an appliance: --data /var/lib/floorhand.")
    lock = FileLock(path)
    try:
        for walked in walk_file(path):
            yield walked.as_facts()
    finally:
        lock.release()


def _list_models(folder: Path) -> Sequence[Mapping[str, Any]]:
    import os

    from appliance.settings import load_settings

    settings = load_settings(folder, os.environ)
    return [settings.describe_model(name, path) for name, path in sorted(settings.model_places().items())]


if __name__ == "__main__":
    sys.exit(main())
