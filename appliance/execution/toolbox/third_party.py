"""Tools that other installed packages bring: found, tried in a process of their own, imported, built. See
``contracts/third_party`` for how such a package is written.

In: the entry points of this Python, the names a site does not want, the ports. Out: tools for ``Toolbox.load``, and why others
are left out. Who calls: ``app`` while it starts, in two parts: :func:`find_third_party` may take its time and runs in a thread
beside the event loop; :func:`build_toolbox` follows once there are ports. Whatever goes wrong costs that tool alone.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import IO, Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused
from appliance.contracts.reading import Reading
from appliance.contracts.third_party import ENTRY_POINTS, FieldReader, ToolPorts
from appliance.contracts.tool import AccessLevel, Isolation, SecurityContract, ToolContract, ToolResult
from appliance.execution.toolbox.contained_tool import ContainedTool
from appliance.execution.toolbox.nested_calls import is_composed
from appliance.execution.toolbox.toolbox import AnyTool, Toolbox
from appliance.execution.workers.process_tool import in_own_process
from appliance.execution.workers.warden import Warden
from appliance.foundation.supervisor import Degraded, why_of

log = logging.getLogger(__name__)

LOADS_WITHIN_S = 10.0  # requirements T1; once for the trial, once for the import, once for building
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")  # of the core's environment; no secret is in these
_TRIALS_AT_ONCE = 4  # a Pi has four cores


@dataclass(frozen=True, slots=True)
class ThirdParty:
    """What was found: classes by the name they are declared by, the package each is from, those left out and why, and those that
    the site does not want."""

    kinds: Mapping[str, type] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()

    @property
    def levels(self) -> dict[str, AccessLevel]:
        """What the found tools say that they need, by name, of those whose contract says it in our words."""
        told = {name: getattr(kind, "contract", None) for name, kind in self.kinds.items()}
        secured = {name: each.security for name, each in told.items() if type(each) is ToolContract}
        sound = {name: each.access_level for name, each in secured.items() if type(each) is SecurityContract}
        return {name: level for name, level in sound.items() if isinstance(level, AccessLevel)}


def find_third_party(clock: Clock, *, disabled: Collection[str] = (), taken: Collection[str] = ()) -> ThirdParty:
    """Find and import all classes. ``disabled`` and ``taken`` names are not even looked into. Blocks; bounded for each tool."""
    found = sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, _package(entry)))
    names = [entry.name for entry in found]
    left_out = {name: "is declared by two packages" for name in names if names.count(name) > 1}
    left_out |= {name: "a tool that ships has this name" for name in names if name in taken}
    off = tuple(sorted(set(names) & set(disabled)))
    wanted = [entry for entry in found if entry.name not in left_out and entry.name not in off]
    left_out |= {name: why for entry, why in _tried(wanted, clock) if (name := entry.name) and why}
    kinds: dict[str, type] = {}
    for entry in wanted:
        if entry.name in left_out:
            continue
        kind, why = _within(entry.load, f"import of {entry.value}")
        if not why:
            is_kind, why = _within(partial(_is_kind, kind), f"contract of {entry.value}")
            why = why or ("" if is_kind else f"{entry.value} is no class with a contract")
        if why:
            left_out[entry.name] = why
        else:
            kinds[entry.name] = kind
    left_out = {name: why for name, why in left_out.items() if name not in off}
    return ThirdParty(kinds, {entry.name: _package(entry) for entry in found}, left_out, off)


def build_toolbox(shipped: Sequence[AnyTool], found: ThirdParty, ports: ToolPorts, warden: Warden, degraded: Degraded) -> Toolbox:
    """Build what was found and load it beside the shipped tools. What is left out is marked in ``degraded`` as ``tool:NAME``.

    Raises:
        ToolValidationError, CycleDetected: something is wrong with a shipped tool.
    """
    left_out = dict(found.left_out)
    ports = replace(ports, field=_reading_half(ports.field))
    tools: dict[str, AnyTool] = {}
    for name, kind in found.kinds.items():
        tool, why = _within(partial(_built, name, kind, ports, warden), f"building of {name}")
        if why:
            left_out[name] = why
        else:
            tools[name] = tool
    toolbox = Toolbox.load(shipped, tools)
    left_out |= toolbox.left_out
    for name, why in left_out.items():
        degraded.mark(f"tool:{name}", f"the tool {name} of {found.packages.get(name, 'a package')} is left out: {why}")
    return toolbox


def _reading_half(field: FieldReader) -> FieldReader:
    """Return the field bus without its writing: machines are written by ``write_tag`` alone. No attribute leads to the bus.
    That keeps nobody from it who means to get there: what runs in the core is trusted, see ``contracts/third_party``."""

    class ReadingHalf:
        __slots__ = ()

        async def read(self, keys: Sequence[str]) -> dict[str, Reading]:
            return await field.read(keys)

        async def read_event_log(self, newest: int) -> list[Mapping[str, Any]]:
            return await field.read_event_log(newest)

    return ReadingHalf()


def _built(name: str, kind: Any, ports: ToolPorts, warden: Warden) -> AnyTool:
    """Build a tool, and try to give it a caller if it wants one: what breaks over that is left out before it is in the box."""
    if kind.contract.isolation is Isolation.PROCESS:
        return in_own_process(kind, {}, warden)
    own = replace(ports, plant=ports.plant.model_copy(deep=True))  # what it does to its own plant, it does to itself
    tool: Any = ContainedTool(kind(own))
    if is_composed(tool):
        tool.uses(_NoCallYet(name))
    return tool  # type: ignore[no-any-return]


class _NoCallYet:
    """The caller of a tool that is being loaded. It gets the one it will use once all are."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Raise Refused."""
        raise Refused(f"{self._owner} can call {tool} only while it is called itself", tool=tool)


def _is_kind(found: Any) -> bool:
    return isinstance(found, type) and type(getattr(found, "contract", None)) is ToolContract


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown package"


# trials -----------------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Trial:
    """An import under way in a process that is thrown away."""

    entry: EntryPoint
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    due_ns: int


def _tried(entries: Sequence[EntryPoint], clock: Clock) -> list[tuple[EntryPoint, str]]:
    """Return why each cannot be used, empty if it can; a few are tried at a time."""
    told = []
    for first in range(0, len(entries), _TRIALS_AT_ONCE):
        trials = [_begun(entry, clock) for entry in entries[first : first + _TRIALS_AT_ONCE]]
        told += [(trial.entry, _ended(trial, clock)) for trial in trials]
    return told


def _begun(entry: EntryPoint, clock: Clock) -> _Trial:
    said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _ended; no pipe: what the import leaves running may hold one open
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "appliance.execution.toolbox.tool_probe", entry.name, entry.value],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.DEVNULL,
        env={**environment, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
        start_new_session=True,
    )
    return _Trial(entry, process, said, clock.monotonic_ns() + int(LOADS_WITHIN_S * 1e9))


def _ended(trial: _Trial, clock: Clock) -> str:
    try:
        trial.process.wait(max(0.0, (trial.due_ns - clock.monotonic_ns()) / 1e9))
    except subprocess.TimeoutExpired:
        return f"it did not load within {LOADS_WITHIN_S:g} s"
    finally:
        with trial.said:
            if trial.process.returncode is None:
                os.killpg(trial.process.pid, signal.SIGKILL)
                trial.process.wait()
            trial.said.seek(0)
            said = trial.said.read()
    try:
        return str(json.loads(said)["why"])
    except ValueError:
        return "it ends the process that loads it"


# in the core ------------------------------------------------------------------------------------------------------------
def _within(work: Callable[[], Any], what: str) -> tuple[Any, str]:
    """Return what ``work`` returns, or why it cannot be had. A thread that hangs is left behind; it keeps nothing from ending."""
    attempt = _Attempt(work, what)
    attempt.start()
    attempt.join(LOADS_WITHIN_S)
    if attempt.is_alive():
        log.error("tool.hangs", extra={"what": what})
        return None, f"it did not load within {LOADS_WITHIN_S:g} s"
    return attempt.value, attempt.why


class _Attempt(threading.Thread):
    def __init__(self, work: Callable[[], Any], what: str) -> None:
        super().__init__(name=what, daemon=True)
        self._work = work
        self.value: Any = None
        self.why = ""

    def run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:  # noqa: BLE001 - another package's: it costs that tool alone, and is told
            self.why = why_of(error)
