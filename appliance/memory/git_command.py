"""The git command with nothing of the machine's own configuration, and a bound on every call.

A lock file beside the repository is held by this process and, through the inherited descriptor, by every git it starts. The
kernel frees it when the last of them is gone, so whoever holds it knows that no git of an earlier life still writes here, and
that any lock git left behind belongs to the dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
from pathlib import Path

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Unavailable

_BOUND_S = 20.0  # one call; the slowest measured is a full check of 2,000 commits at 1.5 s on two x86 cores
_GRACE_S = 2.0  # git told to stop removes its own locks; after this it is killed
_POLL_S = 0.02
_AUTHOR = ("Floorhand", "floorhand@localhost")
_CURE = "install git (apt install git)"
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.autocrlf=false",
    "core.fsync=all",  # objects and references survive a power cut in that order (git >= 2.36; older ones ignore it)
    "core.quotePath=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/main.lock")


class GitCommand:
    """Runs git in one worktree. Not for two calls at a time: the caller serialises."""

    def __init__(self, worktree: Path, clock: Clock) -> None:
        self._worktree = worktree
        self._clock = clock
        self._git = ""
        self._lock_fd = -1

    @property
    def folder(self) -> Path:
        """The repository's own folder."""
        return self._worktree / ".git"

    async def open(self) -> None:
        """Find git and take the lock, waiting for a git of an earlier life to end.

        Raises:
            Unavailable: git is not installed, or another program holds the repository.
        """
        found = shutil.which("git")
        if found is None:
            raise Unavailable(f"git is missing, procedures cannot be read or written; {_CURE}", retry_after_s=60.0)
        self._git = found
        if self._lock_fd < 0:
            self._lock_fd = os.open(_lock_path(self._worktree), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        waiting_until_ns = self._clock.monotonic_ns() + int(_BOUND_S * 1e9)
        for _ in range(int(_BOUND_S / _POLL_S)):
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic_ns() > waiting_until_ns:
                    break
                await asyncio.sleep(_POLL_S)
            else:
                return
        self.close()
        raise Unavailable(f"another program holds the procedures in {self._worktree.name}", retry_after_s=5.0)

    def close(self) -> None:
        """Free the lock."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def clear_stale_locks(self) -> list[str]:
        """Remove the locks of gits that died; return their names. Only while holding the lock and running no git."""
        stale = [name for name in _LOCKS if (self.folder / name).exists()]
        for name in stale:
            (self.folder / name).unlink()
        return stale

    async def run(self, *arguments: str, data: bytes = b"") -> bytes:
        """Run git to its end and return what it printed.

        Raises:
            Unavailable: it failed, took longer than 20 s, or cannot be started; facts carry its own words.
        """
        code, output, complaint = await self.attempt(*arguments, data=data)
        if code != 0:
            words = complaint.decode("utf-8", "replace").strip()[-500:]
            raise Unavailable(f"git {arguments[0]} failed: {words or code}", git=words, code=code)
        return output

    async def attempt(self, *arguments: str, data: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run git and return exit code, output and complaints.

        Raises:
            Unavailable: it took longer than 20 s, or cannot be started.
        """
        if self._lock_fd < 0:
            raise Unavailable("the procedures are not open")
        options = [part for option in _OPTIONS for part in ("-c", option)]
        try:
            process = await asyncio.create_subprocess_exec(
                self._git,
                *options,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._worktree,
                env=self._environment(),
                pass_fds=(self._lock_fd,),
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"git cannot be started: {error.strerror}; {_CURE}", retry_after_s=60.0) from error
        try:
            async with asyncio.timeout(_BOUND_S):
                output, complaint = await process.communicate(data)
        except TimeoutError as error:
            raise Unavailable(f"git {arguments[0]} took longer than {_BOUND_S:g} s") from error
        finally:
            await _end(process)
        return process.returncode or 0, output, complaint

    def _environment(self) -> dict[str, str]:
        stamp = f"@{max(0, int(self._clock.utc().timestamp()))} +0000"
        return {
            "PATH": os.pathsep.join((str(Path(self._git).parent), os.defpath)),
            "HOME": str(self.folder),
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self._worktree),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "GIT_EDITOR": "/bin/false",
            "GIT_PAGER": "cat",
            "GIT_AUTHOR_NAME": _AUTHOR[0],
            "GIT_AUTHOR_EMAIL": _AUTHOR[1],
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_NAME": _AUTHOR[0],
            "GIT_COMMITTER_EMAIL": _AUTHOR[1],
            "GIT_COMMITTER_DATE": stamp,
        }


def _lock_path(worktree: Path) -> Path:
    return worktree.with_name(f"{worktree.name}.lock")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave no git behind: ask, then kill. The process is a group of its own."""
    if process.returncode is not None:
        return
    for sign, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _BOUND_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        try:
            async with asyncio.timeout(patience_s):
                await process.wait()
        except TimeoutError:
            continue
        return
