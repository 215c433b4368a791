"""What happens, told on standard output: one JSON object a line for programs, one sentence a line for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Report = Callable[..., None]

_SENTENCES = {
    "ready": "Playing {plant}.",
    "listening": "  {link}: {protocol} at {where}, devices {devices}",
    "write_received": "written: {tag_or_place} = {value}",
    "request": "{link} device {device_id}: function {function}, {kind} {address}, {count}",
    "forbidden": "FORBIDDEN by the plant model: {link} device {device_id}: function {function}, {kind} {address}, {count}",
    "published": "published: {alarm} {state} ({activation})",
    "note": "{text}",
    "takes_orders": "Type orders, such as: set motor_3.temperature 95 | misbehave short_reply for_s=10 | recover | counts | stop",
    "alarm": "alarm {id}: {state}, value {value}",
    "refused": "not done: {why}",
    "done": "done: {do}",
    "does_not_fit": "{why}",
    "counts": "alarms raised {raised}, cleared {cleared}, published {published}, acknowledged by the broker {acked}; "
    "requests {requests}; writes {writes}",
    "replay_ended": "The recording is at its end; the last values stay.",
    "recorded": "{elapsed_s:.0f} of {seconds:.0f} s, {samples} samples, {unread} tags not readable",
}


def report_json(**fields: Any) -> None:
    """Write one line of JSON: ``{"event": …, …}``."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def report_words(**fields: Any) -> None:
    """Write one sentence."""
    event = fields.pop("event")
    if event == "happened":
        at_s = fields.pop("at_s")
        sentence = f"[{at_s:g} s] " + " ".join(
            f"{value}" if name == "do" else f"{name}={value}" for name, value in fields.items()
        )
    elif event in _SENTENCES:
        place = f"{fields.get('kind')} {fields.get('address')} of device {fields.get('device_id')}"
        sentence = _SENTENCES[event].format(**fields, tag_or_place=fields.get("tag") or place)
    else:
        sentence = f"{event} " + " ".join(f"{name}={value}" for name, value in fields.items())
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()
