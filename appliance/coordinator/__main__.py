"""``python -m appliance.coordinator``: one replica, and a JSON line on standard output once it listens."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from appliance.contracts.errors import ConfigError, FloorhandError
from appliance.coordinator.service import serve
from appliance.coordinator.settings import CoordinatorSettings
from appliance.foundation.invalid_input import sentence_of
from appliance.foundation.log import start_logging

_EX_CONFIG = 78  # sysexits.h: a restart will not help


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped. Returns 0, 78 for settings that cannot work, 1 for anything that may pass."""
    parser = argparse.ArgumentParser(prog="floorhand coordinator", description="the central service of Floorhand")
    parser.add_argument("--host", default=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=argparse.SUPPRESS)
    parser.add_argument("--database", default=argparse.SUPPRESS)
    parser.add_argument("--admin-token-file", type=Path, default=argparse.SUPPRESS)
    parser.add_argument("--signing-key-file", type=Path, default=argparse.SUPPRESS)
    parser.add_argument("--fleet", default=argparse.SUPPRESS)
    parser.add_argument("--tls-cert", type=Path, default=argparse.SUPPRESS)
    parser.add_argument("--tls-key", type=Path, default=argparse.SUPPRESS)
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    given = vars(parser.parse_args(arguments))
    start_logging(given.pop("log_level"))
    try:
        asyncio.run(serve(CoordinatorSettings(**given), ready=_say_ready))
    except ValidationError as error:
        sys.stderr.write("; ".join(map(sentence_of, error.errors())) + "\n")
        return _EX_CONFIG
    except FloorhandError as error:
        sys.stderr.write(error.message + "\n")
        return _EX_CONFIG if isinstance(error, ConfigError) else 1
    return 0


def _say_ready(port: int) -> None:
    sys.stdout.write(json.dumps({"event": "ready", "port": port}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
