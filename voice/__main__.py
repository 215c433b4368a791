"""``python -m voice --socket PATH --settings FILE.json``: the voice process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import threading
from pathlib import Path

from appliance.foundation.id_source import SystemIds
from appliance.foundation.log import start_logging
from appliance.foundation.system_clock import SystemClock
from voice.parent import die_with_parent
from voice.settings import VoiceSettings

log = logging.getLogger(__name__)

_BROKEN = 70  # EX_SOFTWARE of sysexits.h


def main() -> None:
    """Serve until SIGTERM, or until the parent is gone when there is one."""
    parser = argparse.ArgumentParser(prog="python -m voice", description="Hear and speak for one core, over a Unix socket.")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--settings", type=Path, required=True, help="JSON of VoiceSettings")
    parser.add_argument("--parent", type=int, default=0, metavar="PID", help="end with this parent and with standard input")
    parser.add_argument("--log-level", default="info")
    arguments = parser.parse_args()
    if arguments.parent:
        die_with_parent(arguments.parent)
    start_logging(arguments.log_level)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C at a terminal is for the core, which then ends us
    threading.excepthook = _end_on_crash
    settings = VoiceSettings.model_validate_json(arguments.settings.read_bytes())
    asyncio.run(_serve(arguments.socket, settings))


async def _serve(socket: Path, settings: VoiceSettings) -> None:
    from voice.server import VoiceServer
    from voice.service import VoiceService

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    clock = SystemClock()
    server = VoiceServer()
    server.service = VoiceService(settings, clock, SystemIds(clock), server.emit)
    server.service.start()
    try:
        await server.serve(socket, stopping)
    finally:
        await asyncio.to_thread(server.service.stop)


def _end_on_crash(crash: threading.ExceptHookArgs) -> None:
    """A thread that died would leave a voice that looks alive: end, and be started again."""
    name = crash.thread.name if crash.thread is not None else "?"
    error = crash.exc_value or RuntimeError("unknown")
    log.error("voice.thread_died", extra={"of": name}, exc_info=(type(error), error, crash.exc_traceback))
    os._exit(_BROKEN)


if __name__ == "__main__":
    main()
