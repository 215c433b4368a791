"""The data folder before anything is opened in it, and what ends a run said as one named problem with its cure."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from appliance.contracts.errors import ConfigError, FloorhandError, StorageFullError, Unavailable
from appliance.settings import APPLIANCE_FILE

FOLDER_MODE = 0o750  # the group is the technicians'; what is said and heard is nobody else's
FILES_UMASK = 0o027  # the same for what is made inside, as systemd/floorhand.service says too

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_AILING = frozenset({errno.EROFS, errno.EIO})  # a disk that fails is often mounted read-only; a repaired one is not
_UNUSABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
)  # what trying again does not change


def prepare_data_folder(folder: Path) -> None:
    """Make the data folder if it is missing and see that it can be written.

    Raises:
        ConfigError: it cannot be made or written.
        StorageFullError: there is no room for it.
        Unavailable: its file system is read-only, as after an error of the disk, or does not answer.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            reason = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(reason, os.strerror(reason), str(folder))
    except OSError as error:
        if (named := storage_fault(error, folder)) is None:
            raise
        raise named from error


def storage_fault(error: OSError, folder: Path) -> FloorhandError | None:
    """Return what an error of the file system means for the data folder; None when it is about something else."""
    if error.errno in _FULL:
        full = str(error.filename or folder)
        return StorageFullError(f"no room left for {full}", file=full)
    place = Path(os.fsdecode(error.filename or ""))
    if error.errno in _AILING:
        message = f"the folder {folder} cannot be written now: {os.strerror(error.errno or 0)}"
        return Unavailable(message, retry_after_s=30.0, file=str(folder), cure="Have the disk looked at; `dmesg` says more.")
    is_ours = place.is_relative_to(folder) or (place.is_absolute() and folder.is_relative_to(place))
    if error.errno not in _UNUSABLE or not is_ours:
        return None
    return ConfigError(
        f"the folder {folder} cannot be used: {os.strerror(error.errno or 0)}",
        file=APPLIANCE_FILE,
        key="data_dir",
        cure="Set FLOORHAND_DATA (or data_dir) to a folder this user can write, or make this one writable.",
    )


def first_fault(group: BaseExceptionGroup, folder: Path) -> FloorhandError | None:
    """Return what to tell of errors that ended several tasks at once; None when one of them is a fault of the program."""
    told: list[FloorhandError] = []
    for error in group.exceptions:
        match error:
            case FloorhandError():
                named: FloorhandError | None = error
            case OSError():
                named = storage_fault(error, folder)
            case BaseExceptionGroup():
                named = first_fault(error, folder)
            case _:
                named = None
        if named is None:
            return None
        told.append(named)
    return told[0]
