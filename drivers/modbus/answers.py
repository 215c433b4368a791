"""What a Modbus exception answer means for the caller: the one map from the protocol's codes to our errors."""

from __future__ import annotations

from collections.abc import Mapping

from appliance.contracts.errors import FloorhandError, Refused, Unavailable, Uncertain

ILLEGAL_ADDRESS = 2

# Modbus Application Protocol 1.1b3, section 7: code, its name, what a write answered so has done to the device.
# Codes 1-3 and 7 say that the request was not taken; 6 and 10 that it was not taken now. 4, 5, 8 and 11 come from a device
# (or a gateway) that began: it failed on the way, goes on working, or never heard of the end. That is not "nothing written".
_MEANINGS: Mapping[int, tuple[str, type[FloorhandError]]] = {
    1: ("ILLEGAL FUNCTION", Refused),
    2: ("ILLEGAL DATA ADDRESS", Refused),
    3: ("ILLEGAL DATA VALUE", Refused),
    4: ("SERVER DEVICE FAILURE", Uncertain),
    5: ("ACKNOWLEDGE", Uncertain),
    6: ("SERVER DEVICE BUSY", Unavailable),
    7: ("NEGATIVE ACKNOWLEDGE", Refused),
    8: ("MEMORY PARITY ERROR", Uncertain),
    10: ("GATEWAY PATH UNAVAILABLE", Unavailable),
    11: ("GATEWAY TARGET DEVICE FAILED TO RESPOND", Uncertain),
}
_SILENT_BEHIND_GATEWAY = (10, 11)


def refused_read(code: int, where: str) -> FloorhandError:
    """Return the error of a read that was answered with exception ``code``: Refused for good, or Unavailable for now."""
    name, meaning = _meaning(code)
    if meaning is Refused:
        return Refused(f"{where}: the device answers {name}", exception_code=code)
    return Unavailable(f"{where}: the device answers {name}", exception_code=code)


def refused_write(code: int, where: str) -> FloorhandError:
    """Return the error of a write that was answered with exception ``code``; Refused and Unavailable wrote nothing."""
    name, meaning = _meaning(code)
    return meaning(f"{where}: the device answers {name}", exception_code=code)


def meaning_of(code: int) -> str:
    """Return the protocol's name of an exception code."""
    return _meaning(code)[0]


def comes_from_device(code: int) -> bool:
    """Whether the answer shows that the device itself is there, not only a gateway before it."""
    return code not in _SILENT_BEHIND_GATEWAY


def _meaning(code: int) -> tuple[str, type[FloorhandError]]:
    return _MEANINGS.get(code, (f"exception {code}", Uncertain))
