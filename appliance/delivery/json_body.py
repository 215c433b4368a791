"""What a message's payload looks like on the wire. A channel that wants another form of it gets it here."""

from __future__ import annotations

from appliance.contracts.delivery import Delivery
from appliance.foundation.canonical import canonical_json

MAY_BE_REPEAT = "may_be_repeat"
"""Member of the payload of what the other side may have got before."""


def json_body(delivery: Delivery) -> bytes:
    """Return the payload as JSON; what may have arrived before says so."""
    repeat = {MAY_BE_REPEAT: True} if delivery.may_be_repeat else {}
    return canonical_json({**(delivery.payload or {}), **repeat}).encode()
