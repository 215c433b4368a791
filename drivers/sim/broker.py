"""A real mosquitto of one's own, on a free loopback port, from the shipped template: started, stopped, killed, restarted."""

from __future__ import annotations

import asyncio
import getpass
import shutil
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from appliance.contracts.errors import Unavailable

_CONFIG = Path(__file__).parents[2] / "config"
_TEMPLATE = _CONFIG / "mosquitto.conf.in"
_ACL = _CONFIG / "mosquitto" / "acl.in"
_STARTS_WITHIN_S = 10.0
_STOPS_WITHIN_S = 5.0
_ASK_EVERY_S = 0.02


class Broker:
    """One broker. ``folder`` keeps its configuration, password file, state and log; ``users`` maps names to passwords.

    The port is chosen at the first start and kept over restarts. ``template`` is ``config/mosquitto.conf.in``; ``extras`` are
    more configuration, name -> text, such as a filled-in ``config/mosquitto/site-bridge.conf.in``.
    """

    def __init__(
        self, folder: Path, *, users: Mapping[str, str], template: Path = _TEMPLATE, extras: Mapping[str, str] | None = None
    ) -> None:
        self.port = 0
        self._folder = folder
        self._users = users
        self._template = template
        self._extras = extras or {}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def log(self) -> Path:
        """What the broker wrote."""
        return self._folder / "mosquitto.log"

    async def start(self) -> None:
        """Start, or start again with the state that was left; return when it accepts connections.

        Raises:
            Unavailable: mosquitto is not installed, or does not start; the message says why.
        """
        mosquitto = _program("mosquitto")
        if not self.port:
            await self._prepare()
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                mosquitto, "-c", str(self._folder / "mosquitto.conf"), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            async with asyncio.timeout(_STARTS_WITHIN_S):
                while not await self._accepts():
                    if not self.is_running:
                        raise Unavailable(f"mosquitto does not start: {self._last_words()}")
                    await asyncio.sleep(_ASK_EVERY_S)  # another process' readiness: asked again until it answers
        except TimeoutError as error:
            await self.kill()
            raise Unavailable(f"mosquitto does not answer: {self._last_words()}") from error

    async def stop(self) -> None:
        """End it in good order: SIGTERM, after which it saves its state; SIGKILL if it does not end."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL: what a power cut leaves."""
        await self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, as with a pulled cable."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: go on after :meth:`pause`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    async def _prepare(self) -> None:
        state = self._folder.resolve() / "state"
        state.mkdir(parents=True, exist_ok=True)
        passwords = self._folder.resolve() / "passwords"
        passwords.touch(mode=0o600)
        passwords.write_text("".join(f"{name}:{password}\n" for name, password in self._users.items()), encoding="utf-8")
        hashing = await asyncio.create_subprocess_exec(  # turns plain passwords into hashes, none on the command line
            _program("mosquitto_passwd"),
            "-U",
            str(passwords),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await hashing.wait() != 0:
            raise Unavailable("mosquitto_passwd cannot write the password file")
        extra_dir = self._folder.resolve() / "extra"
        extra_dir.mkdir(exist_ok=True)
        for name, text in self._extras.items():
            (extra_dir / f"{name}.conf").write_text(text, encoding="utf-8")
        self.port = free_port()
        names = {
            "PORT": str(self.port),
            "ADDRESS": "127.0.0.1",
            "USER": getpass.getuser(),
            "PASSWORD_FILE": str(passwords),
            "ACL_FILE": str(_ACL),
            "EXTRA_DIR": str(extra_dir),
            "STATE_DIR": str(state),
        }
        (self._folder / "mosquitto.conf").write_text(filled(self._template, names), encoding="utf-8")

    async def _accepts(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    async def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(how)
        try:
            async with asyncio.timeout(_STOPS_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"


def filled(template: Path, names: Mapping[str, str]) -> str:
    """Return a shipped template with its ``@NAMES@`` filled in. Those in comments may stay."""
    text = template.read_text(encoding="utf-8")
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Unavailable(f"{name} is not installed; apt-get install mosquitto")
    return found


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
