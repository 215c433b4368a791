"""Examines the machine and its links: named checks, each with a cure. Safe beside a running service.

Nothing is changed and the database of a running service is never opened. In: what the configuration says
(:class:`Subject`). Out: findings. Who calls: ``floorhand doctor``.
"""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from appliance.contracts.clock import Clock
from appliance.contracts.errors import ConfigError
from appliance.foundation.unix_socket import refusal_of
from appliance.health.link_checks import Endpoint, look_at
from appliance.store.views import integrity_faults

_OLDEST_PYTHON = (3, 11)
_FREE_BYTES = 512 << 20  # below this a partition fills within days of ordinary use; the ledger itself needs far less
_OTHERS = 0o077  # group and others, whatever they may do
_ANSWER_S = 3.0  # a link on the same site answers within milliseconds; this bounds the whole examination
_SEE_JOURNAL = "See the journal: journalctl -u floorhand | grep {part}"
_CURES = {
    "audit": "See what it names: floorhand audit verify. Keep a copy of the data folder as it is; nothing mends it.",
    "clock": "Enable systemd-timesyncd or chrony, see `timedatectl`; or, if it cannot be told, put the shipped unit file back.",
    "clock_behind": "Set the clock: `timedatectl`, or give it a network with NTP. Records keep their order meanwhile.",
    "identity": "See `floorhand ledger show` and docs/operations.md, Copies and restored cards.",
    "models": "See `floorhand status` for why each does not answer. Phrases and playbooks work meanwhile.",
    "sync": "See `floorhand sync status` and docs/operations.md, Copies and restored cards.",
}
_CURES_OF_KINDS = {
    "model": "Correct what it names at {name} below language_models: in appliance.yaml, or its account there; then restart.",
    "playbook": "Mend it, then run `floorhand playbooks reload`; `floorhand playbooks show {name}` says where it is.",
    "tool": "Mend its package and restart, or list it in appliance.yaml below tools: `disabled: [{name}]`.",
}
_SILENT = "silent"  # in the status of a service that holds its socket and does not answer: why not
_ALSA_PCM = Path("/proc/asound/pcm")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result. ``cure`` is empty when ``ok``."""

    check: str
    ok: bool
    detail: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be examined, as configured; an empty text means not configured.

    ``microphone`` and ``speaker`` say ``card`` for a sound card, ``none``, or the path of what stands in for one.
    ``speech`` are ``(check, present, what)`` of the engines and models that speech needs. ``secrets`` are ``(what, file,
    has to be there)`` of files that nobody else may read.
    """

    config_faults: Sequence[ConfigError]
    data_dir: Path
    socket: Path
    database: Path
    links: Sequence[Endpoint] = ()
    coordinator_url: str = ""
    microphone: str = "card"
    speaker: str = "card"
    speech: Sequence[tuple[str, bool, str]] = field(default_factory=tuple)
    secrets: Sequence[tuple[str, Path, bool]] = field(default_factory=tuple)


def examine(subject: Subject, clock: Clock) -> list[Finding]:
    """Run every check; takes a few seconds at most when nothing answers."""
    status = _service_status(subject.socket)
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        lambda: _config(subject.config_faults),
        lambda: _data_dir(subject.data_dir, is_running=status is not None),
        lambda: _secrets(subject.secrets),
        _commands,
        lambda: _speech(subject.speech),
        lambda: _sound(subject),
        lambda: _links(subject.links),
        lambda: _coordinator(subject.coordinator_url),
        lambda: _clock(clock),
        lambda: _service(subject.socket, status),
        lambda: _database(subject.database, status),
    ]
    return [finding for check in checks for finding in check()]


def _python() -> Iterator[Finding]:
    found = f"Python {sys.version.split()[0]}"
    ok = sys.version_info >= _OLDEST_PYTHON
    yield Finding("python", ok, found, "" if ok else "Install Python 3.11 or newer.")


def _config(faults: Sequence[ConfigError]) -> Iterator[Finding]:
    if not faults:
        yield Finding("config", True, "sound")
    for fault in faults:
        yield Finding("config", False, fault.message.removesuffix(f" {fault.cure}"), fault.cure)


def _data_dir(folder: Path, *, is_running: bool) -> Iterator[Finding]:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        if is_running:
            yield Finding("data_dir", True, f"{folder} belongs to the service that runs")
        else:
            with tempfile.TemporaryFile(dir=there):
                yield Finding("data_dir", True, f"{folder} can be written" if there == folder else f"{folder} will be made")
    except OSError as error:
        cure = f"Run it as the service's user or root; if that fails too, give the service's user write access to {there}."
        yield Finding("data_dir", False, f"{there}: {error.strerror}", cure)
    free = shutil.disk_usage(there).free
    cure = "Free space on that partition, or move data_dir to a larger one."
    yield Finding("disk", free >= _FREE_BYTES, f"{free >> 20} MiB free at {there}", "" if free >= _FREE_BYTES else cure)


def _secrets(files: Sequence[tuple[str, Path, bool]]) -> Iterator[Finding]:
    """What is not there is a fault only where it has to be; what may not be looked at is nobody else's business."""
    sound = 0
    for what, file, is_needed in files:
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except PermissionError:
            sound += 1
        except OSError as error:
            if is_needed:
                cure = f"Put it there, for the service's user alone (mode 0600), or name another file: {file}"
                yield Finding("secrets", False, f"{what}, {file}: {error.strerror}", cure)
        else:
            if mode & _OTHERS:
                cure = f"Run: chmod 600 {file}. If somebody may have read it, have a new one made."
                yield Finding("secrets", False, f"{what}, {file}, can be read by others (mode {mode:04o})", cure)
            else:
                sound += 1
    if sound:
        yield Finding("secrets", True, f"{sound} {'file' if sound == 1 else 'files'} that nobody else can read")


def _commands() -> Iterator[Finding]:
    for command, package in (("git", "git"), ("espeak-ng", "espeak-ng")):
        where = shutil.which(command)
        yield Finding(command, where is not None, where or "not found", "" if where else f"apt-get install {package}")


def _speech(parts: Sequence[tuple[str, bool, str]]) -> Iterator[Finding]:
    for check, present, what in parts:
        cure = "" if present else "Name one under models in appliance.yaml, or fetch one: floorhand models fetch --help"
        yield Finding(check, present, what if present else f"{what} is missing", cure)


def _sound(subject: Subject) -> Iterator[Finding]:
    for check, source, direction in (("microphone", subject.microphone, "capture"), ("speaker", subject.speaker, "playback")):
        if source == "none":
            yield Finding(check, True, "switched off in the configuration")
            continue
        if source != "card":
            ok = Path(source).exists() or Path(source).parent.exists()
            yield Finding(check, ok, source, "" if ok else f"Create {source}, or configure a sound card.")
            continue
        cards = [line for line in _lines(_ALSA_PCM) if direction in line]
        detail = cards[0].partition(": ")[2].partition(" :")[0] if cards else "no sound card offers it"
        cure = "" if cards else "Plug one in and see `arecord -l` / `aplay -l`; the service's user needs the group audio."
        yield Finding(check, bool(cards), detail, cure)


def _links(links: Sequence[Endpoint]) -> Iterator[Finding]:
    for link in links:
        yield Finding(link.check, *look_at(link))


def _coordinator(url: str) -> Iterator[Finding]:
    if not url:
        yield Finding("coordinator", True, "none configured; the appliance works alone")
        return
    try:
        answer = httpx.get(f"{url.rstrip('/')}/v1/health", timeout=_ANSWER_S)
        ok, detail = answer.is_success, f"{url} answers {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        ok, detail = False, f"{url}: {error or type(error).__name__}"
    cure = "" if ok else "The appliance goes on without it; check the address, the network and the coordinator itself."
    yield Finding("coordinator", ok, detail, cure)


def _clock(clock: Clock) -> Iterator[Finding]:
    ok = clock.is_synced
    detail = "synchronised" if ok else "not synchronised: times in records may be wrong, their order is not"
    yield Finding("clock", ok, detail, "" if ok else "Enable systemd-timesyncd or chrony; see `timedatectl`.")


def _service(path: Path, status: dict[str, Any] | None) -> Iterator[Finding]:
    if status is None:
        yield Finding("service", False, f"nothing answers at {path}", "Start it: systemctl start floorhand, or floorhand run")
        return
    if _SILENT in status:
        cure = "If it does not answer a minute later: systemctl restart floorhand; the journal says what it did last."
        yield Finding("service", False, f"runs and does not answer at {path}: {status[_SILENT]}", cure)
        return
    ready = bool(status.get("ready"))
    yield Finding("service", ready, "running" if ready else "running, not ready yet", "" if ready else "Give it a minute.")
    for part, why in status.get("degraded", {}).items():
        urgent = "; for more than two hours" if part in status.get("needs_attention", ()) else ""
        yield Finding(f"service.{part}", False, f"{why}{urgent}", _cure_of(part))
    for hold in status.get("hold", {}).get("holds", ()):
        who = "the key switch" if hold["source"] == "key_switch" else hold["by"]
        release = f"When it is safe: floorhand release, as {who}; or floorhand release --for '{who}'"
        cure = "Turn the key back." if hold["source"] == "key_switch" else release
        yield Finding(
            "service.hold", False, f"on hold by {who} since {hold['since']}: {hold['reason'] or 'no reason given'}", cure
        )
    if status.get("draining"):
        yield Finding("service.drain", False, "draining: nothing new is taken", "floorhand drain --undo, or restart it")


def _cure_of(part: str) -> str:
    """What to do about a degraded part: of one of many of its kind (``tool:NAME``), what is done about each."""
    kind, _, name = part.partition(":")
    if name and kind in _CURES_OF_KINDS:
        return _CURES_OF_KINDS[kind].format(name=name)
    return _CURES.get(part, _SEE_JOURNAL.format(part=part))


def _database(path: Path, status: dict[str, Any] | None) -> Iterator[Finding]:
    if status is not None and _SILENT in status:
        cure = "Have the service answer, or stop it and look again: systemctl stop floorhand"
        yield Finding("database", False, "held by a service that does not answer: nobody can tell how it is", cure)
    elif status is not None:
        yield Finding("database", True, "open in the running service, which watches it")
    elif not path.exists():
        yield Finding("database", True, "will be made at the first start")
    elif faults := integrity_faults(path):
        yield Finding("database", False, "; ".join(faults), f"Copy {path} aside before anything else, then restore a backup.")
    else:
        yield Finding("database", True, "sound")


def _service_status(path: Path) -> dict[str, Any] | None:
    """Return the running service's health, None when there is none; ``_SILENT`` says why one that is there tells nothing."""
    match refusal_of(path):
        case FileNotFoundError() | ConnectionRefusedError():
            return None
        case PermissionError():
            return {_SILENT: "this user may not ask it"}
    try:
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://floorhand", timeout=_ANSWER_S) as http:
            answer: dict[str, Any] = http.get("/v1/health").json()
            return answer
    except httpx.TimeoutException:
        return {_SILENT: f"nothing came within {_ANSWER_S:g} s"}
    except (httpx.HTTPError, ValueError) as error:
        return {_SILENT: str(error) or type(error).__name__}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
