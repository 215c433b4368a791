"""L4: how things are done. A Git repository of playbooks and reports, through the git command.

``playbooks/`` is in use, ``shipped/`` is what came with the program (see ``shipped.py``), ``reports/`` what was written here.
Every change is one commit by Floorhand. The same content of the same file is committed once, however often it is asked for.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.memory.git_command import GitCommand
from appliance.memory.procedural_repair import is_whole, repair
from appliance.memory.shipped import AS_SHIPPED, IN_USE, blob_id, decide_import, read_ids, read_tree

log = logging.getLogger(__name__)

_OPEN_MARK = "floorhand-open"  # in .git while a repository is open: found at the next open, its writer died
_INTENT = "floorhand-intent"  # path and message of the commit being made: found at the next open, it is made then
_EXCERPT_CHARS = 600
_FIELD, _RECORD = "\x1f", "\x1e"


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One commit as listed. ``subject`` is the first line of its message."""

    id: str
    at_utc: datetime
    subject: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProcedureHit:
    """One file found. ``share`` is the part of the asked terms it holds: 0..1."""

    path: str
    commit: str
    excerpt: str
    share: float

    @property
    def is_approved(self) -> bool:
        """Whether it is a playbook in use, which a person released; a report is what happened once."""
        return self.path.startswith(f"{IN_USE}/")


class ProcedureRepository:
    """Implements :class:`appliance.contracts.ports.ProcedureStore`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder.absolute()
        self._git = GitCommand(self._folder, clock)
        self._turn = asyncio.Lock()
        self.fault = "the report folder is not open"
        """Why nothing can be filed now, in words fit to be spoken; empty when it can."""

    @property
    def worktree(self) -> Path:
        """Where the files are; playbooks in use are below ``playbooks/``."""
        return self._folder

    async def open(self, seed: Path) -> None:
        """Create or recover the repository and take over the shipped playbooks below ``seed``.

        Edits people made in the worktree are committed first, under a message that says so.

        Raises:
            Unavailable: git is missing or fails, or another program holds the repository.
        """
        async with self._turn:
            _make_folder(self._folder)
            await self._git.open()
            try:
                await self._recover()
                await self._commit_found()
                await self._take_over(seed)
                _touch(self._git.folder / _OPEN_MARK)
            except BaseException:
                self._git.close()
                raise
            self.fault = ""

    async def close(self) -> None:
        """Say that nothing was interrupted and let go of the repository."""
        async with self._turn:
            (self._git.folder / _OPEN_MARK).unlink(missing_ok=True)
            self._git.close()
            self.fault = "the report folder is closed"

    async def playbook_files(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return path -> blob id of the playbooks' files as they are in the worktree now, and of those as they were shipped."""
        in_use, shipped = self._folder / IN_USE, self._folder / AS_SHIPPED
        return await asyncio.to_thread(lambda: (read_ids(in_use), read_ids(shipped)))

    async def commit_edits(self, message: str) -> str:
        """Commit what people changed among the playbooks; return the id of the newest commit.

        Raises:
            Unavailable: git is missing or fails; asking again is harmless.
        """
        async with self._turn:
            self._git.clear_stale_locks()
            await self._git.run("add", "--all", "--", IN_USE)
            await self._commit_staged(message)
            return await self._head()

    async def head(self) -> str:
        """Return the id of the newest commit, empty before the first."""
        async with self._turn:
            return await self._head()

    async def commit_file(self, path: str, content: str, message: str) -> str:
        """Commit one file and return the commit id; when the newest commit has this content already, the one that brought it.

        An edit somebody made in the worktree is committed before it is replaced.

        Raises:
            Refused: the path leaves the repository.
            Unavailable: git is missing or fails; asking again is harmless.
        """
        name = self._checked(path)
        data = content.encode()
        async with self._turn:
            self._git.clear_stale_locks()
            held = await self._blob_at_head(name)
            if held == blob_id(data):
                return await self._newest_commit_of(name)
            here = _read_or_none(self._folder / name)
            if here is not None and here != data and blob_id(here) != held:
                await self._commit([name], f"Edit found in {name}")
            said = message or f"Write {name}"
            intent = self._git.folder / _INTENT
            _put(intent, json.dumps({"path": name, "message": said}).encode())
            self._write(name, data)
            await self._commit([name], said)
            intent.unlink()
            return await self._head()

    async def find_commit(self, path: str, content: str) -> str | None:
        """Return the newest commit that brought exactly this content to this path, or None.

        Raises:
            Refused: the path leaves the repository.
            Unavailable: git is missing or fails.
        """
        name, wanted = self._checked(path), blob_id(content.encode())
        async with self._turn:
            if not await self._head():
                return None
            listed = await self._git.run(
                "--literal-pathspecs", "log", f"--format={_RECORD}%H", "--raw", "--no-abbrev", "--no-renames", "--", name
            )  # fmt: skip
        for record in listed.decode("utf-8", "replace").split(_RECORD)[1:]:
            commit, *changes = record.split("\n")
            if any(change.split(" ")[3:4] == [wanted] for change in changes if change.startswith(":")):
                return commit.strip()
        return None

    async def read(self, path: str, commit: str = "HEAD") -> str | None:
        """Return a file's text at a commit, or None when it is not there.

        Raises:
            Refused: the path leaves the repository, or the commit is not one's name.
        """
        name = self._checked(path)
        if commit != "HEAD" and not (4 <= len(commit) <= 40 and set(commit) <= set("0123456789abcdef")):
            raise Refused(f"{commit} does not name a commit")
        async with self._turn:
            code, output, _ = await self._git.attempt("cat-file", "blob", f"{commit}:{name}")
        return output.decode("utf-8", "replace") if code == 0 else None

    async def log(self, grep: str = "", limit: int = 20) -> list[CommitEntry]:
        """Return the newest commits, only those whose message holds ``grep`` (case folded) when it is given."""
        asked = [f"--grep={grep}"] if grep else []
        async with self._turn:
            return await self._log(asked, limit)

    async def search(self, terms: Sequence[str], limit: int) -> list[ProcedureHit]:
        """Return files of which content or commit messages hold the terms, those that hold most of them first.

        Playbooks in use and reports are searched; the shipped copies are not.
        """
        asked = [t for t in dict.fromkeys(terms) if t and "\n" not in t]
        if not asked:
            return []
        patterns = [part for term in asked for part in ("-e", term)]
        async with self._turn:
            head = await self._head()
            if not head:
                return []
            code, output, complaint = await self._git.attempt(
                "grep", "-I", "-i", "-F", "-z", "--no-color", *patterns, "HEAD", "--", ".", f":(exclude){AS_SHIPPED}"
            )  # fmt: skip
            if code > 1:
                raise Unavailable(f"git grep failed: {complaint.decode('utf-8', 'replace').strip()[-300:]}")
            commits = await self._log([f"--grep={term}" for term in asked], limit * 2)
        return _rank(asked, output.decode("utf-8", "replace"), commits, head, limit)

    # all below: the caller holds the turn -----------------------------------------------------------------------------
    async def _recover(self) -> None:
        was_interrupted = (self._git.folder / _OPEN_MARK).exists()
        stale = self._git.clear_stale_locks() if self._git.folder.is_dir() else []
        if stale:
            log.warning("procedures.stale_locks_removed", extra={"locks": stale})
        await self._git.run("init", "--quiet", "--initial-branch=main", "--template=")
        if not was_interrupted and await self._is_readable():
            return
        if not await is_whole(self._git):
            await repair(self._git)
            await self._git.run("add", "--all", "--", ".")
            await self._commit_staged("Found in the folder after a repair")

    async def _is_readable(self) -> bool:
        """A look that costs one call: the branch is unborn or stands on a commit with a tree."""
        code, _, _ = await self._git.attempt("rev-parse", "--quiet", "--verify", "HEAD^{tree}")
        return code == 0 or not any((self._git.folder / "objects").glob("[0-9a-f][0-9a-f]/*"))

    async def _commit_found(self) -> None:
        """End a commit that was interrupted, then commit what people changed by hand: files the repository knows, and new
        ones among the playbooks."""
        if not await self._head():
            return
        await self._git.run("reset", "--quiet")
        intent = self._git.folder / _INTENT
        if (meant := _read_intent(intent)) is not None:
            name, message = meant
            here = _read_or_none(self._folder / name)
            if here is not None and blob_id(here) != await self._blob_at_head(name):
                await self._commit([name], message)
                log.warning("procedures.commit_completed", extra={"path": name})
        intent.unlink(missing_ok=True)
        await self._git.run("add", "--update", "--", ".")
        if (self._folder / IN_USE).is_dir():
            await self._git.run("add", "--all", "--", IN_USE)
        await self._commit_staged("Edits found in the folder at start")

    async def _take_over(self, seed: Path) -> None:
        files = read_tree(seed)
        new = {path: blob_id(content) for path, content in files.items()}
        base = await self._tree_at_head(AS_SHIPPED)
        mine = read_ids(self._folder / IN_USE)
        what = decide_import(new, base, mine)
        if not what.changed:
            return
        for path in what.write:
            self._write(f"{IN_USE}/{path}", files[path])
        for path in what.remove:
            (self._folder / IN_USE / path).unlink()
        for path in what.changed:
            if path in files:
                self._write(f"{AS_SHIPPED}/{path}", files[path])
            else:
                (self._folder / AS_SHIPPED / path).unlink(missing_ok=True)
        for path in what.kept:
            log.warning("procedures.local_edit_kept", extra={"path": path})
        await self._git.run("add", "--all", "--force", "--", *(f for f in (IN_USE, AS_SHIPPED) if (self._folder / f).is_dir()))
        await self._commit_staged(what.message)

    async def _head(self) -> str:
        code, output, _ = await self._git.attempt("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
        return output.decode("ascii").strip() if code == 0 else ""

    async def _blob_at_head(self, name: str) -> str:
        code, output, _ = await self._git.attempt("rev-parse", "--quiet", "--verify", f"HEAD:{name}")
        return output.decode("ascii").strip() if code == 0 else ""

    async def _newest_commit_of(self, name: str) -> str:
        listed = await self._git.run("--literal-pathspecs", "log", "-1", "--format=%H", "--", name)
        return listed.decode("ascii").strip()

    async def _tree_at_head(self, folder: str) -> dict[str, str]:
        """Relative path -> blob id of what the newest commit has below a folder."""
        if not await self._head():
            return {}
        listed = await self._git.run("ls-tree", "-r", "-z", "HEAD", "--", f"{folder}/")
        entries = (entry.split("\t", 1) for entry in listed.decode("utf-8", "surrogateescape").split("\0") if entry)
        return {path.removeprefix(f"{folder}/"): meta.split(" ")[2] for meta, path in entries}

    async def _commit(self, names: Sequence[str], message: str) -> None:
        """Commit these paths as they are in the worktree; the caller knows that they differ."""
        await self._git.run("--literal-pathspecs", "add", "--all", "--force", "--", *names)
        arguments = ("commit", "--quiet", "--no-verify", "--file=-", "--", *names)
        await self._git.run("--literal-pathspecs", *arguments, data=message.encode())

    async def _commit_staged(self, message: str) -> None:
        """Commit what is staged; nothing staged is no commit."""
        code, _, _ = await self._git.attempt("diff", "--cached", "--quiet")
        if code != 0:
            await self._git.run("commit", "--quiet", "--no-verify", "--file=-", data=message.encode())

    async def _log(self, asked: Sequence[str], limit: int) -> list[CommitEntry]:
        if not await self._head():
            return []
        form = f"--format={_RECORD}%H{_FIELD}%ct{_FIELD}%s"
        options = ("--regexp-ignore-case", "--fixed-strings", "--no-renames", "--name-only", f"--max-count={limit}")
        listed = await self._git.run("log", form, *options, *asked)
        entries = []
        for record in listed.decode("utf-8", "replace").split(_RECORD)[1:]:
            first, *paths = record.split("\n")
            commit, seconds, subject = first.split(_FIELD)
            entries.append(CommitEntry(commit, datetime.fromtimestamp(int(seconds), UTC), subject, tuple(filter(None, paths))))
        return entries

    def _checked(self, path: str) -> str:
        """Return the path as git names it.

        Raises:
            Refused: it is absolute, climbs, hides in the repository's own folder, or passes through a link.
        """
        name = PurePosixPath(path)
        parts = name.parts
        wrong = (
            not parts
            or name.is_absolute()
            or "\\" in path
            or any(ord(c) < 32 or ord(c) == 127 for c in path)
            or any(part == ".." or part.lower().rstrip(". ") == ".git" for part in parts)
            or _passes_link(self._folder, parts)
        )
        if wrong:
            raise Refused(f"{path!r} does not name a file of the repository", path=path)
        return name.as_posix()

    def _write(self, name: str, data: bytes) -> None:
        """Put a whole file in place, durable before git is told of it."""
        target, partial = self._folder / name, self._git.folder / "floorhand-partial"
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)


def _rank(terms: Sequence[str], grepped: str, commits: Sequence[CommitEntry], head: str, limit: int) -> list[ProcedureHit]:
    lines_of: dict[str, list[str]] = {}
    for line in grepped.splitlines():
        where, _, text = line.partition("\0")
        lines_of.setdefault(where.partition(":")[2], []).append(text)
    brought_by: dict[str, CommitEntry] = {}
    for entry in commits:
        for path in entry.paths:
            if not path.startswith(f"{AS_SHIPPED}/"):
                brought_by.setdefault(path, entry)
    hits = []
    for path in dict.fromkeys([*lines_of, *brought_by]):
        entry_of = brought_by.get(path)
        text = "\n".join(lines_of.get(path, ()))
        searched = f"{path}\n{text}\n{entry_of.subject if entry_of else ''}".lower()
        share = sum(term.lower() in searched for term in terms) / len(terms)
        excerpt = text or (entry_of.subject if entry_of else "")
        hits.append(ProcedureHit(path, entry_of.id if entry_of else head, excerpt[:_EXCERPT_CHARS], share))
    hits.sort(key=lambda h: (-h.share, not h.is_approved, h.path))
    return hits[:limit]


def _passes_link(folder: Path, parts: Sequence[str]) -> bool:
    return any(folder.joinpath(*parts[: n + 1]).is_symlink() for n in range(len(parts)))


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def _touch(path: Path) -> None:
    path.touch()


def _put(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}-partial")
    partial.write_bytes(data)
    partial.replace(path)


def _read_intent(path: Path) -> tuple[str, str] | None:
    """Path and message of a commit that was begun; None if none was, or a power cut took the note."""
    try:
        meant = json.loads(path.read_bytes())
        return str(meant["path"]), str(meant["message"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _read_or_none(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
