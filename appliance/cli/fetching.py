"""Fetches a model: streamed, resumable, verified before anything of it is in place."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from appliance.cli.unpacking import is_archive, unpack
from appliance.contracts.errors import Corrupt, Malformed, Refused, StorageFullError, Unavailable

Tell = Callable[[int, int | None], None]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ARCHIVE_SUFFIX = re.compile(r"\.(zip|tgz|tar(\.\w+)?)$")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_REDIRECTS = 5
_TIMEOUT_S = 30.0  # of one read, not of the whole download
_SPARE_BYTES = 64 << 20  # left free for the ledger, which matters more than a model


def fetch(url: str, sha256: str, name: str, folder: Path, tell: Tell) -> Path:
    """Download ``url`` into ``folder / name`` and return that path; archives are unpacked there.

    The download grows beside its place as ``.NAME.part`` and is continued when it was interrupted. ``tell`` gets bytes done
    and in all. The same content under the same name again costs nothing.

    Raises:
        Malformed: name or hash are not of the right form.
        Refused: plain http to another machine, an unsafe archive, or other content under that name already.
        Unavailable: the server cannot be reached or does not have it; what came so far is kept.
        StorageFullError: it would not fit.
        Corrupt: what came is not what the hash says; it is thrown away.
    """
    sha256 = sha256.lower()
    name = name or _ARCHIVE_SUFFIX.sub("", urlsplit(url).path.rpartition("/")[2])
    if not _NAME.fullmatch(name):
        raise Malformed(f"{name!r} is not a name for a model: letters, digits, dot, dash and underscore, 64 at most")
    if not _SHA256.fullmatch(sha256):
        raise Malformed("--sha256 needs the 64 hex digits of the file's SHA-256")
    place, receipt, part = folder / name, folder / f".{name}.sha256", folder / f".{name}.part"
    if place.exists():
        if receipt.exists() and receipt.read_text(encoding="ascii", errors="replace").strip() == sha256:
            return place
        raise Refused(f"{place} exists with other content; remove it or choose another --name", path=str(place))
    folder.mkdir(parents=True, exist_ok=True)
    _download(url, part, tell)
    found = _digest(part)
    if found != sha256:
        part.unlink()
        raise Corrupt(f"the download's SHA-256 is {found}, not {sha256}; it was thrown away", found=found, wanted=sha256)
    _put_in_place(part, place)
    receipt.write_text(f"{sha256}\n", encoding="ascii")
    return place


def _put_in_place(part: Path, place: Path) -> None:
    if not is_archive(part):
        part.replace(place)
        return
    draft = place.with_name(f".{place.name}.unpacking")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        unpack(part, draft)
        draft.replace(place)
    except (Refused, Corrupt):
        part.unlink()  # its hash is right, so fetching it again would change nothing
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    part.unlink()


def _download(url: str, part: Path, tell: Tell) -> None:
    try:
        with httpx.Client(timeout=_TIMEOUT_S, headers={"Accept-Encoding": "identity"}) as http:
            for _ in range(_REDIRECTS + 1):
                onward = _receive(http, _safe(url), part, tell)
                if onward is None:
                    return
                url = urljoin(url, onward)
    except httpx.HTTPError as error:
        raise Unavailable(f"{urlsplit(url).hostname}: {error or type(error).__name__}; what came so far is kept") from error
    raise Unavailable(f"more than {_REDIRECTS} redirects")


def _receive(http: httpx.Client, url: str, part: Path, tell: Tell) -> str | None:
    """Continue the download; return where the server says to go instead, None when it is complete."""
    have = part.stat().st_size if part.exists() else 0
    with http.stream("GET", url, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        if answer.has_redirect_location:
            return str(answer.headers["Location"])
        if answer.status_code == 416:  # nothing after what we have: complete, or a leftover of another file; the hash tells
            return None
        if not answer.is_success:
            raise Unavailable(f"the server answered {answer.status_code} {answer.reason_phrase}", status=answer.status_code)
        goes_on = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        done = have if goes_on else 0
        coming = int(answer.headers.get("Content-Length", "0"))
        _check_room(part.parent, coming)
        with part.open("ab" if goes_on else "wb") as file:
            for chunk in answer.iter_raw():
                file.write(chunk)
                done += len(chunk)
                tell(done, (have if goes_on else 0) + coming if coming else None)
            file.flush()
            os.fsync(file.fileno())
    return None


def _safe(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return url
    raise Refused("models are fetched over https only (plain http from this machine itself)", url=url)


def _check_room(folder: Path, coming_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if coming_bytes + _SPARE_BYTES > free:
        raise StorageFullError(
            f"{coming_bytes >> 20} MiB are coming and {free >> 20} MiB are free; make room first", free_bytes=free
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
