"""Makes a repository whole again after its writer died or the power went.

A killed git leaves locks and temporary objects, which are harmless. A power cut may leave empty or torn objects and references
that name them. Then: damaged objects are set aside, the branch goes back to the newest commit that is whole, and the
worktree, which nobody touched, is committed again on top. Nothing a person wrote is lost; history may be.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import zlib
from pathlib import Path

from appliance.memory.git_command import GitCommand

log = logging.getLogger(__name__)

BRANCH = "refs/heads/main"
_LOOKED_AT = 50  # newest commits of the reflog tried


async def is_whole(git: GitCommand) -> bool:
    """Check every object and reference."""
    code, _, complaint = await git.attempt("fsck", "--full", "--no-dangling", "--no-progress")
    return code == 0 and b"error" not in complaint


async def repair(git: GitCommand) -> str:
    """Repair and return the commit the branch stands on now, empty when no commit was whole."""
    commits = _known_commits(git.folder)
    (git.folder / "HEAD").write_text(f"ref: {BRANCH}\n", "ascii")  # with an empty one git does not know its own folder
    aside = git.folder / "floorhand-damaged"
    damaged = _set_aside_damaged_objects(git.folder, aside)
    good = ""
    for commit in commits:
        code, _, _ = await git.attempt("rev-list", "--objects", "--quiet", commit)
        if code == 0:
            good = commit
            break
    _set_aside(git.folder / "logs", aside)  # it names commits that are gone, which git calls an error ever after
    _set_aside(git.folder / "index", aside)
    branch = git.folder / BRANCH
    branch.parent.mkdir(parents=True, exist_ok=True)
    if good:
        branch.write_text(f"{good}\n", "ascii")
        await git.run("read-tree", "HEAD")
    else:
        branch.unlink(missing_ok=True)
    log.error("procedures.repaired", extra={"damaged_objects": damaged, "commit": good})
    return good


def _known_commits(folder: Path) -> list[str]:
    """Commits the branch has been at, newest first: the reference itself, then its log."""
    reference = folder / BRANCH
    names = [reference.read_text("ascii", "replace").strip()] if reference.is_file() else []
    for name in (f"logs/{BRANCH}", "logs/HEAD"):
        path = folder / name
        if path.is_file():
            lines = path.read_text("utf-8", "replace").splitlines()
            names += [parts[1] for line in reversed(lines) if len(parts := line.split(" ", 2)) == 3]
    proper = [n for n in names if len(n) == 40 and set(n) <= set("0123456789abcdef") and n.strip("0")]
    return list(dict.fromkeys(proper))[:_LOOKED_AT]


def _set_aside_damaged_objects(folder: Path, aside: Path) -> int:
    count = 0
    for path in (folder / "objects").glob("[0-9a-f][0-9a-f]/*"):
        if path.name.startswith("tmp_obj_"):
            path.unlink()
        elif not _is_sound(path):
            _set_aside(path, aside, path.parent.name + path.name)
            count += 1
    return count


def _set_aside(path: Path, aside: Path, name: str = "") -> None:
    """Move something out of git's sight; only the newest of a name is kept."""
    if not path.exists():
        return
    aside.mkdir(exist_ok=True)
    target = aside / (name or path.name)
    if target.is_dir():
        shutil.rmtree(target)
    path.rename(target)


def _is_sound(path: Path) -> bool:
    try:
        content = zlib.decompress(path.read_bytes())
    except zlib.error:
        return False
    return hashlib.sha1(content, usedforsecurity=False).hexdigest() == path.parent.name + path.name
