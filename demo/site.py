"""The site: broker, simulated plant, coordinator and core, each a real process on this machine.

Used by the unattended story and by ``make run``. Everything it starts it also ends; all files go below one folder.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import httpx

from demo.core_client import CoreClient
from demo.process import Child
from demo.wholeness import Note, wait_until_whole
from drivers.sim.broker import Broker

CONFIG = Path("config")
_COORDINATOR_WITHIN_S = 180.0


def free_port() -> int:
    """Return a loopback TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _unheard(_: str) -> None:
    """Nobody watches."""


class Site:
    """One running site in ``folder`` (made anew). ``device`` is the core's name at the coordinator.

    ``config`` is the core's configuration, ``environ`` what else its environment holds. ``note`` is told what a start waits for.
    """

    device = "line-3-hand"

    def __init__(
        self, folder: Path, *, config: Path = CONFIG, environ: Mapping[str, str] | None = None, note: Note = _unheard
    ) -> None:
        self.folder = folder
        self._note = note
        self.config = config
        self._environ = environ or {}
        self.microphone = folder / "microphone"
        self.speech = folder / "speech.wav"
        self.data = folder / "data"
        self.database = self.data / "ledger.sqlite"
        self.logs = folder / "logs"
        self.environment = folder / "environment"
        self._admin_token_file = folder / "coordinator-admin.token"
        self._mqtt_password = secrets.token_urlsafe(18)
        self._coordinator_port = free_port()
        self._device_token = ""

    async def open(self) -> None:
        """Make the folder and start broker and plant; coordinator and core are started by the story, each by name."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for place in (self.microphone, self.data, self.logs):
            place.mkdir(parents=True)
        users = {"plc": secrets.token_urlsafe(18), "floorhand": self._mqtt_password}
        self.broker = Broker(self.folder / "broker", users=users)
        await self.broker.start()
        plc_password = self.folder / "plc.password"
        plc_password.touch(mode=0o600)
        plc_password.write_text(users["plc"], encoding="ascii")
        self.plant = Child(
            "plant",
            [sys.executable, "-m", "drivers.sim", "--plant", str(self.config / "plant.yaml"), "--port", "0",
             "--mqtt-port", str(self.broker.port), "--mqtt-user", "plc", "--mqtt-password-file", str(plc_password)],
            self.logs / "plant.log",
        )  # fmt: skip
        await self.plant.start()
        ready = await self.plant.report(lambda r: r.get("event") == "ready", within_s=30.0)
        self._plc_port = int(ready["port"])
        self.coordinator = Child(
            "coordinator",
            [sys.executable, "-m", "appliance", "coordinator", "--database", str(self.folder / "coordinator.sqlite"),
             "--port", str(self._coordinator_port), "--admin-token-file", str(self._admin_token_file)],
            self.logs / "coordinator.log",
        )  # fmt: skip

    async def start_coordinator(self) -> None:
        """Start the coordinator; enrol this appliance the first time."""
        await self.coordinator.start()
        async with asyncio.timeout(_COORDINATOR_WITHIN_S):
            while not await self._coordinator_answers():
                if not self.coordinator.is_running:
                    raise RuntimeError(f"the coordinator ended; see {self.logs / 'coordinator.log'}")
                await asyncio.sleep(0.1)  # another process' readiness: asked again until it answers
        if not self._device_token:
            enrolled = await self.at_coordinator("POST", "/v1/devices", {"name": self.device})
            self._device_token = enrolled["token"]

    async def _coordinator_answers(self) -> bool:
        try:
            await self.at_coordinator("GET", "/v1/health")
        except (httpx.HTTPError, FileNotFoundError):
            return False
        return True

    async def at_coordinator(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask the coordinator's API as its administrator."""
        token = self._admin_token_file.read_text(encoding="ascii").strip()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self._coordinator_port}", timeout=10.0) as http:
            answer = await http.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
        answer.raise_for_status()
        return answer.json()

    def make_core(self, name: str = "core") -> Child:
        """Return ``floorhand run`` for this site, not started yet. It logs to ``<name>.log``."""
        environ = {
            "FLOORHAND_DATA": str(self.data.resolve()),
            "FLOORHAND_PLC_PORT": str(self._plc_port),
            "FLOORHAND_MQTT_PORT": str(self.broker.port),
            "FLOORHAND_MQTT_USER": "floorhand",
            "FLOORHAND_MQTT_PASSWORD": self._mqtt_password,
            "FLOORHAND_COORDINATOR_URL": f"http://127.0.0.1:{self._coordinator_port}",
            "FLOORHAND_COORDINATOR_DEVICE": self.device,
            "FLOORHAND_COORDINATOR_TOKEN": self._device_token,
            "FLOORHAND_MICROPHONE": f"wav:{self.microphone.resolve()}",
            "FLOORHAND_SPEAKER_RECORD": str(self.speech.resolve()),
        }
        command = [sys.executable, "-m", "appliance", "run", "--config", str(self.config)]
        self._keep_environment(environ)
        return Child(name, command, self.logs / f"{name}.log", {**environ, **self._environ})

    def _keep_environment(self, environ: Mapping[str, str]) -> None:
        """Write what the core is started with for a shell to read (``. FILE``), so that commands find the same site. It holds
        the site's secrets."""
        self.environment.touch(mode=0o600)
        lines = [f"export {name}={quote(value)}\n" for name, value in environ.items()]
        self.environment.write_text("".join(lines), encoding="utf-8")

    async def start_core(self, *, until_whole: bool = True) -> None:
        """Start the core and wait until it is ready, and everything it loads afterwards unless ``until_whole`` is false."""
        self.core = self.make_core()
        await self.core.start()
        if (former := getattr(self, "client", None)) is not None:
            await former.close()  # its connections lead to the core before this one
        self.client = CoreClient(self.data / "run" / "api.sock")
        log = str(self.logs / "core.log")
        await wait_until_whole(
            self.client, note=self._note, log=log, still=lambda: self.core.is_running, only_ready=not until_whole
        )

    async def close(self) -> None:
        """End every process that still runs, the core first so that it can say goodbye to the others."""
        if hasattr(self, "core"):
            await self.core.stop()
            await self.client.close()
        for child in ("coordinator", "plant"):
            if hasattr(self, child):
                await getattr(self, child).stop()
        if hasattr(self, "broker"):
            await self.broker.stop()
