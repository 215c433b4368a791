"""What the local API still does on a full card: one rule for all its addresses.

What room is left is kept for alarms (``appliance.store.reserve``), so that whatever writes is refused, as talk is: an act is
only done if it is named here. One that writes little writes much when it is asked often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import Request

from appliance.contracts.errors import StorageFullError

GOES_ON = frozenset(
    {
        "/v1/ask",  # the gate decides: "stop that" gets in, talk does not
        "/v1/hold",
        "/v1/turns/{turn_id:path}/stop",
        "/v1/alarms/activations/{identity:path}/acknowledge",
        "/v1/alarms/activations/{identity:path}/reset",
        "/v1/alarms/defined/{alarm:path}/unshelve",  # these two let alarms be heard again
        "/v1/alarms/defined/{alarm:path}/in-service",
        "/v1/tokens/look",  # looks, and writes nothing but what the time is
    }
)
"""Addresses that act and are answered on a full card as ever."""

_READS = ("GET", "HEAD", "OPTIONS")


def kept_for_alarms(refuses_talk: Callable[[], str]) -> Callable[[Request], Awaitable[None]]:
    """Return what every request has to pass. ``refuses_talk`` says why only alarms are taken now, nothing while all is."""

    async def passes(request: Request) -> None:
        if request.method in _READS or request.scope["route"].path in GOES_ON:
            return
        if why := await asyncio.to_thread(refuses_talk):  # it may look at the disk
            raise StorageFullError(why)

    return passes
