"""Whether anybody listens on a Unix socket."""

from __future__ import annotations

import socket
from pathlib import Path

_ANSWER_S = 1.0  # connecting is a matter of the kernel alone; only a full queue takes longer


def refusal_of(path: Path) -> OSError | None:
    """Connect and hang up at once; return why that failed, None when somebody listens.

    ``FileNotFoundError`` and ``ConnectionRefusedError`` mean nobody; ``PermissionError`` that we may not ask;
    ``BlockingIOError`` and ``TimeoutError`` that somebody does not keep up.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ANSWER_S)
        try:
            probe.connect(str(path))
        except OSError as error:
            return error
    return None
