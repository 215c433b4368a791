"""The last configuration that was sound, kept in the data folder and used, loudly, when the new one is broken."""

from __future__ import annotations

import filecmp
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from appliance.contracts.errors import ConfigError
from appliance.planning.phrases import Phrasebook
from appliance.planning.playbooks.playbook_sense import senseless_steps
from appliance.planning.playbooks.playbooks import Playbooks
from appliance.settings import (
    APPLIANCE_FILE,
    PHRASES_FOLDER,
    PLANT_FILE,
    PLAYBOOKS_FOLDER,
    POLICIES_FILE,
    Settings,
    build_settings,
    environ_of,
    find_data_dir,
    load_settings,
)
from appliance.settings_faults import ConfigFaults, nearest_cure
from appliance.settings_rules import disabled_faults, rule_faults, shipped_contracts, shipped_tool_levels
from appliance.settings_sense import sense_faults
from appliance.settings_yaml import read_document

log = logging.getLogger(__name__)

_KEPT = "config-last-good"
_FOLDERS = (PHRASES_FOLDER, PLAYBOOKS_FOLDER)


def check_settings(folder: Path, environ: Mapping[str, str]) -> Settings:
    """Load a configuration and everything it points to: phrases are read and their templates parsed, playbooks are
    read, every alarm has its playbook, links and limits make sense, rules are about what is there.

    Raises:
        ConfigError: with every fault found; :class:`ConfigFaults` for those of the settings files.
    """
    settings = load_settings(folder, environ)
    phrasebook = Phrasebook.load(settings.phrases_dir, settings.plant)
    playbooks = Playbooks.load(settings.playbooks_dir, "", shipped_tool_levels(), shipped_contracts())
    phrasebook.knowing(playbooks).prepare()
    known = {*playbooks.for_faults}
    faults = [
        ConfigError(
            f"alarm {alarm.id} names a playbook that "
            + ("is for no alarm: its triggers name no faults" if playbooks.find(alarm.playbook) else "is not there"),
            file=PLANT_FILE,
            key=f"alarms[{index}].playbook",
            cure=nearest_cure(alarm.playbook, sorted(known)),
        )
        for index, alarm in enumerate(settings.plant.alarms)
        if alarm.playbook not in known
    ]
    faults += [
        ConfigError(message, file=file, key=key, cure=cure)
        for file, (key, message, cure) in senseless_steps(playbooks, settings.plant)
    ]
    if shipped := list(disabled_faults(settings)):
        document = read_document(settings.folder / APPLIANCE_FILE, environ_of(folder, environ))
        for key, message, cure in shipped:
            document.fault(key, message, cure)
        faults.extend(document.faults)
    if wrong := list(sense_faults(settings)):
        document = read_document(settings.folder / PLANT_FILE, environ_of(folder, environ))  # once more, for its lines
        for key, message, cure in wrong:
            document.fault(key, message, cure)
        faults.extend(document.faults)
    if meaningless := list(rule_faults(settings)):
        document = read_document(settings.folder / POLICIES_FILE, environ_of(folder, environ))
        for key, message, cure in meaningless:
            document.fault(key, message, cure)
        faults.extend(document.faults)
    if faults:
        raise ConfigFaults(faults)
    return settings


def settings_for_service(folder: Path, environ: Mapping[str, str]) -> Settings:
    """Return sound settings to run with: the configuration's, else those of the last good copy with ``config_fault`` set.

    Nothing is written: the data folder may be another core's. :func:`keep_sound` follows once it is ours.

    Raises:
        ConfigError: broken, and there is no copy (or the copy cannot be used any more).
    """
    try:
        return check_settings(folder, environ)
    except ConfigError as fault:
        kept = find_data_dir(folder, environ) / _KEPT
        if not os.path.isdir(kept):  # noqa: PTH112 - pathlib raises where one may not look
            raise
        log.error("config.broken", extra={"fault": fault.message, "running_with": str(kept)})
        settings = build_settings(kept, folder.resolve().parent, environ_of(folder, environ))
        return settings.model_copy(update={"config_fault": fault.message})


def keep_sound(settings: Settings) -> None:
    """Have a configuration that was found sound become the last good copy; when it cannot be kept, that is a warning.

    Call it with the ledger taken over: whoever is refused must not leave its configuration to the core that runs.
    """
    if settings.config_fault:
        return
    try:
        keep_last_good(settings)
    except OSError as error:
        log.warning("config.not_kept", extra={"folder": str(settings.data_dir), "why": str(error)})


def keep_last_good(settings: Settings) -> None:
    """Copy the configuration into the data folder; nothing is written when the copy is the same already.

    The files are copied as written: what variables hold is not in them.

    Raises:
        OSError: the data folder cannot be written; what was kept before still is.
    """
    place = settings.data_dir / _KEPT
    if place.is_dir() and _is_same(settings.folder, place):
        return
    settings.data_dir.mkdir(mode=0o750, parents=True, exist_ok=True)
    draft, before = place.with_name(f"{_KEPT}.new"), place.with_name(f"{_KEPT}.before")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    for name in _files(settings.folder):
        (draft / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(settings.folder / name, draft / name)
    shutil.rmtree(before, ignore_errors=True)
    if place.exists():
        place.rename(before)
    draft.rename(place)
    shutil.rmtree(before, ignore_errors=True)
    _to_disk(settings.data_dir)


def _files(folder: Path) -> list[Path]:
    """Return what belongs to a configuration, relative to its folder."""
    single = sorted(folder.glob("*.yaml"))
    below = [path for name in _FOLDERS for path in sorted((folder / name).rglob("*")) if path.is_file()]
    return [path.relative_to(folder) for path in (*single, *below)]


def _is_same(folder: Path, copy: Path) -> bool:
    names = _files(folder)
    if names != _files(copy):
        return False
    _, differing, missing = filecmp.cmpfiles(folder, copy, [str(name) for name in names], shallow=False)
    return not differing and not missing


def _to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
