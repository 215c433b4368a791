"""Word to systemd over ``NOTIFY_SOCKET`` (sd_notify(3)). Without a supervisor every call does nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class ServiceNotifier:
    """Tells the service manager how the core is. Never raises: a manager that is gone must not stop the service."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address  # @ marks an abstract socket
        self._watchdog_usec = environ.get("WATCHDOG_USEC", "")
        self._watchdog_pid = environ.get("WATCHDOG_PID", "")

    @property
    def is_supervised(self) -> bool:
        """Whether a service manager listens."""
        return bool(self._address)

    @property
    def watchdog_s(self) -> float | None:
        """Seconds within which the manager wants a sign of life from this process, None when it wants none."""
        is_ours = not self._watchdog_pid or self._watchdog_pid == str(os.getpid())
        if not (self._address and is_ours and self._watchdog_usec.isdigit()):
            return None
        return int(self._watchdog_usec) / 1e6 or None

    def ready(self, status: str) -> None:
        """The doors are open."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, status: str) -> None:
        """One line for ``systemctl status``."""
        self._send(f"STATUS={_one_line(status)}")

    def alive(self) -> None:
        """A sign of life; only the watchdog calls this, and only on progress."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The core is shutting down in order."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
            link.setblocking(False)  # a manager that does not read must not hold the core up
            try:
                link.sendto(message.encode(), self._address)
            except OSError:
                return


def _one_line(text: str) -> str:
    return " ".join(text.split())
