"""Imports a tool of another package in a process that may hang, crash or exit, by ``python -m`` with NAME and VALUE of its entry
point. Says in one line of JSON on standard output why it cannot be used, empty if it can."""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib.metadata import EntryPoint

from appliance.contracts.third_party import ENTRY_POINTS
from appliance.foundation.parent import signal_on_parents_death
from appliance.foundation.supervisor import why_of


def main() -> None:
    """Try it, say so, and be gone, whatever was left running."""
    signal_on_parents_death(signal.SIGKILL)
    report, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    why = ""
    try:
        EntryPoint(sys.argv[1], sys.argv[2], ENTRY_POINTS).load()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told and this process ends
        why = why_of(error)
    os.write(report, json.dumps({"why": why}).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
