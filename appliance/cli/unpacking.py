"""Unpacks a zip or tar of a model. Only plain files and folders, only below the target, only as much as was announced."""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from appliance.contracts.errors import Corrupt, Refused, StorageFullError

_MOST_FILES = 20_000  # a Vosk model has some dozens
_CHUNK_BYTES = 1 << 20


def is_archive(path: Path) -> bool:
    """Return whether ``path`` is a zip or a tar, by its content."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def unpack(archive: Path, target: Path) -> None:
    """Unpack into ``target``, which must not exist. A single folder that holds everything is taken off.

    Raises:
        Refused: a member is a link or device, or would leave the target.
        StorageFullError: it would not fit.
        Corrupt: the archive cannot be read.
    """
    target.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                _write_all(_zip_members(opened), sum(each.file_size for each in opened.infolist()), target)
        else:
            with tarfile.open(archive) as opened_tar:
                _write_all(_tar_members(opened_tar), sum(each.size for each in opened_tar.getmembers()), target)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError) as error:
        raise Corrupt(f"the archive cannot be read: {error}") from error
    _lift_single_folder(target)


def _write_all(members: Iterator[tuple[str, int, IO[bytes]]], total_bytes: int, target: Path) -> None:
    free = shutil.disk_usage(target).free
    if total_bytes > free:
        raise StorageFullError(f"unpacked it takes {total_bytes >> 20} MiB, {free >> 20} MiB are free", free_bytes=free)
    for count, (name, size, content) in enumerate(members, start=1):
        if count > _MOST_FILES:
            raise Refused(f"the archive holds more than {_MOST_FILES} files")
        place = target / _inside(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            left = size
            while chunk := content.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise Refused(f"{name} is larger than the archive says")
                file.write(chunk)


def _zip_members(opened: zipfile.ZipFile) -> Iterator[tuple[str, int, IO[bytes]]]:
    for member in opened.infolist():
        kind = stat.S_IFMT(member.external_attr >> 16)  # Unix mode in the upper half; 0 when made elsewhere
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"{member.filename} is a link or device; only files and folders are unpacked")
        if not member.is_dir():
            with opened.open(member) as content:
                yield member.filename, member.file_size, content


def _tar_members(opened: tarfile.TarFile) -> Iterator[tuple[str, int, IO[bytes]]]:
    for member in opened.getmembers():
        if not (member.isreg() or member.isdir()):
            raise Refused(f"{member.name} is a link or device; only files and folders are unpacked")
        if member.isreg():
            content = opened.extractfile(member)
            assert content is not None  # of a regular file there always is one
            yield member.name, member.size, content


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
        raise Refused(f"{name!r} would leave the folder it is unpacked into")
    return path


def _lift_single_folder(target: Path) -> None:
    inside = list(target.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        lifted = target.with_name(target.name + ".lifted")
        inside[0].replace(lifted)
        target.rmdir()
        lifted.replace(target)
