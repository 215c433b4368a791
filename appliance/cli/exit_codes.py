"""Exit codes. Above 63 they are those of sysexits.h, so that scripts and systemd understand them."""

from __future__ import annotations

from appliance.contracts.errors import ConfigError, FloorhandError, Unavailable

OK = 0
PROBLEM = 1  # one named problem: refused, failed, a finding of the doctor
USAGE = 2  # wrong arguments (what click uses)
NOT_REACHABLE = 69  # EX_UNAVAILABLE: the service does not answer
TRY_LATER = 75  # EX_TEMPFAIL: not taken, or not done yet
MAY_BE_TAKEN = 76  # EX_PROTOCOL: it was sent and no answer came; look before it is sent again
CONFIGURATION = 78  # EX_CONFIG: starting again changes nothing


def exit_code_of(error: FloorhandError) -> int:
    """Return the code that says what the caller may do next."""
    if isinstance(error, ConfigError):
        return CONFIGURATION
    if isinstance(error, Unavailable):
        return TRY_LATER
    return PROBLEM
