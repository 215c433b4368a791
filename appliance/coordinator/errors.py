"""Refusals of the coordinator and the HTTP status each is answered with."""

from __future__ import annotations

from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, Refused, StorageFullError, Unavailable


class Unauthenticated(Refused):
    """No token, or one that is not known."""

    code = "unauthenticated"


class Forbidden(Refused):
    """The token is known and may not do this."""

    code = "forbidden"


class NotFound(Refused):
    """There is no such thing."""

    code = "not_found"


class Conflict(Refused):
    """What is asked does not fit what is held; facts say what is held."""

    code = "conflict"


class ChainConflict(Conflict):
    """Pushed operations do not continue the stream. Facts: ``reason`` (gap, fork, broken), ``lane``, and the head held."""

    code = "chain_conflict"


class VersionMismatch(Refused):
    """Somebody else changed it since it was read; facts hold the current ``version``."""

    code = "version_mismatch"


class VersionRequired(Refused):
    """A change has to say which version it was made from."""

    code = "version_required"


class TooLarge(Malformed):
    """More in one request than the limits allow."""

    code = "too_large"


_STATUS: dict[type[FloorhandError], int] = {
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    VersionMismatch: 412,
    TooLarge: 413,
    VersionRequired: 428,
    StorageFullError: 507,
    Refused: 409,
    Malformed: 422,
    Unavailable: 503,
    Corrupt: 500,
}


def status_of(error: FloorhandError) -> int:
    """Return the HTTP status of an error: that of the nearest class in the table."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
