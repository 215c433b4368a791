"""Modbus servers as processes of their own, all taking the same orders: ours, libmodbus and pymodbus, over every transport."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from appliance.contracts.link import Link
from appliance.contracts.tag import RegisterKind

_SOURCE = Path(__file__).with_name("libmodbus_server.c")
_WITHIN_S = 20.0

HELD: dict[RegisterKind, Callable[[int], int]] = {
    RegisterKind.COIL: lambda n: int(n % 3 == 0),
    RegisterKind.DISCRETE_INPUT: lambda n: int(n % 5 == 0),
    RegisterKind.HOLDING_REGISTER: lambda n: 7 * n + 1,
    RegisterKind.INPUT_REGISTER: lambda n: 65_535 - n,
}
"""What a register or bit holds before anything was written to it; the simulated plant holds zeros."""


class FieldServer:
    """A running server. It belongs to no event loop, so that one may serve all tests of a module."""

    def __init__(self, name: str, command: Callable[[int], Sequence[str]], link: dict[str, Any]) -> None:
        self.name = name
        self.port = 0
        self._command = command
        self._link = link
        self._process: subprocess.Popen[str] | None = None
        self._reports: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader: threading.Thread | None = None

    @property
    def holds_zeros(self) -> bool:
        """Whether nothing is in its tables until it is written."""
        return self.name == "simulator"

    @property
    def most_bits(self) -> int:
        """How many coils one request can ask it for."""
        return 256 if self.holds_zeros else 2000

    def link(self, **changes: Any) -> Link:
        """The link that leads here."""
        where = {} if self._link.get("serial") else {"host": "127.0.0.1", "port": self.port}
        return Link.model_validate({"id": "l", "timeout_s": 0.3, "retries": 0} | where | self._link | changes)

    def sockets(self) -> int:
        """How many sockets of this process lead here, or how often it holds the serial line open."""
        if serial := self._link.get("serial"):
            return open_handles(Path(serial["device"]))
        family = "udp" if self._link.get("protocol") == "udp" else "tcp"
        rows = [row.split() for row in Path(f"/proc/self/net/{family}").read_text(encoding="ascii").splitlines()[1:]]
        established = "01"
        return sum(1 for row in rows if row[2].endswith(f":{self.port:04X}") and row[3] == established)

    def held(self, kind: RegisterKind, first: int, count: int) -> tuple[int, ...]:
        """What reading gives before anything was written."""
        return tuple(0 if self.holds_zeros else HELD[kind](n) for n in range(first, first + count))

    def start(self) -> None:
        """Start, at the port it had before, and wait until it serves."""
        self._process = subprocess.Popen(
            list(self._command(self.port)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), name=f"read {self.name}")
        self._reader.start()
        self.port = int(self._report("ready")["port"])

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is None or self._reader is None:
            return
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def do(self, order: str, **details: Any) -> None:
        """Give an order and wait until it was carried out. It takes a moment only, so no event loop minds."""
        self._order(order, **details)
        self._report("done")

    def counts(self) -> dict[str, int]:
        """What it counted so far: ``writes`` that were carried out, and ``connections`` where it counts them."""
        self._order("counts")
        counts = self._report("counts")
        self._report("done")
        if isinstance(counts["writes"], dict):
            counts["writes"] = sum(counts["writes"].values())
        return {name: count for name, count in counts.items() if isinstance(count, int)}

    def _order(self, order: str, **details: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": order} | details) + "\n")
        self._process.stdin.flush()

    def _report(self, event: str) -> dict[str, Any]:
        while True:
            report = self._reports.get(timeout=_WITHIN_S)
            if report.get("event") == event:
                return report

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self._reports.put(json.loads(line))


def open_handles(device: Path) -> int:
    """How often this process holds a file open."""
    wanted = device.resolve()
    return sum(1 for handle in Path("/proc/self/fd").iterdir() if _leads_to(handle) == wanted)


def _leads_to(handle: Path) -> Path | None:
    try:
        return handle.readlink()
    except OSError:
        return None  # it was closed while being looked at


@contextmanager
def field_server(name: str, folder: Path) -> Iterator[FieldServer]:
    """Run one of ``SERVERS``."""
    with ExitStack() as stack:
        server = SERVERS[name](name, folder, stack)
        stack.callback(server.kill)
        server.start()
        yield server


def _simulator(name: str, folder: Path, _: ExitStack) -> FieldServer:
    plant = folder / "plant.yaml"
    plant.write_text(yaml.dump(_wide_plant(), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)), encoding="utf-8")
    words = [sys.executable, "-m", "drivers.sim", "--plant", str(plant), "--port"]
    return FieldServer(name, lambda port: [*words, str(port)], {})


def _wide_plant() -> dict[str, Any]:
    """Enough of everything in unit 1. The simulation looks at each tag twenty times a second, so they are few and wide."""
    words = {"coil": 256, "discrete_input": 32, "holding_register": 300, "input_register": 32}
    tags = [
        {"name": f"{kind}_{at}", "asset": "motor_1", "link": "l", "device_id": 1, "kind": kind, "address": at, "spoken": {}}
        | {"type": "bool" if kind in ("coil", "discrete_input") else "uint64"}
        for kind, count in words.items()
        for at in range(0, count, 1 if kind in ("coil", "discrete_input") else 4)
    ]
    return {
        "site": "s",
        "links": [{"id": "l", "host": "127.0.0.1", "port": 1}],
        "assets": [{"id": "motor_1", "area": "line_1", "spoken": {}}],
        "tags": tags,
        "alarms": [],
    }


def build_libmodbus_server(folder: Path) -> Path:
    """Compile the C server."""
    program = folder / "libmodbus_server"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, _SOURCE, "-lmodbus"], check=True)
    return program


def _libmodbus_tcp(name: str, folder: Path, _: ExitStack) -> FieldServer:
    program = str(build_libmodbus_server(folder))
    return FieldServer(name, lambda port: [program, "tcp", str(port)], {})


def _libmodbus_rtu(name: str, folder: Path, stack: ExitStack) -> FieldServer:
    program = str(build_libmodbus_server(folder))
    ours, its = stack.enter_context(serial_line(folder))
    link = {"protocol": "rtu", "serial": {"device": str(ours), "parity": "N"}, "quiet_s": 0.05}
    return FieldServer(name, lambda _: [program, "rtu", str(its), "19200"], link)


@contextmanager
def serial_line(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Two pseudo-terminals joined by socat, as a null modem cable joins two serial ports."""
    ends = folder / "ours", folder / "its"
    addresses = [f"pty,raw,echo=0,link={end}" for end in ends]
    with subprocess.Popen(["socat", "-d", "-d", *addresses], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "starting data transfer loop" in line:
                break
        try:
            yield ends
        finally:
            process.kill()


def _pymodbus(protocol: str, **link: Any) -> Callable[[str, Path, ExitStack], FieldServer]:
    def make(name: str, _: Path, __: ExitStack) -> FieldServer:
        words = [sys.executable, "-m", "tests.support.pymodbus_server", protocol]
        return FieldServer(name, lambda port: [*words, str(port)], {"protocol": protocol} | link)

    return make


def _pymodbus_tls(name: str, folder: Path, _: ExitStack) -> FieldServer:
    cert, key = certificate(folder, "plc")
    our_cert, our_key = certificate(folder, "floorhand")
    words = [sys.executable, "-m", "tests.support.pymodbus_server", "tls"]
    tls = {"ca": str(cert), "cert": str(our_cert), "key": str(our_key), "server_name": "plc.test"}
    return FieldServer(
        name, lambda port: [*words, str(port), str(cert), str(key), str(our_cert)], {"protocol": "tls", "tls": tls}
    )


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a self-signed certificate for ``name.test``; return it and its key."""
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}.test", "-keyout", key, "-out", cert,
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return cert, key


SERVERS: dict[str, Callable[[str, Path, ExitStack], FieldServer]] = {
    "simulator": _simulator,
    "libmodbus": _libmodbus_tcp,
    "libmodbus on a serial line": _libmodbus_rtu,
    "pymodbus in TLS": _pymodbus_tls,
    "pymodbus RTU over TCP": _pymodbus("rtu_over_tcp", quiet_s=0.05),
    "pymodbus over UDP": _pymodbus("udp"),
}
"""By name: who serves, over what."""
