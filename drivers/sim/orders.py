"""What a simulated plant can be told to do: by a scenario on its timeline, or by somebody at its standard input.

``at_s`` counts from the start of the scenario, or from now when typed. It, ``every_s`` and ``over_s`` are simulated seconds;
``delay_s``, ``for_s`` and ``seconds`` are real ones, because the client's time-outs are.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from appliance.contracts.reading import Value
from drivers.sim.signals import Signal


class _Order(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    at_s: float | None = Field(default=None, ge=0, description="when; absent: at once")
    every_s: float | None = Field(default=None, gt=0, description="again, every so many seconds")
    rounds: int | None = Field(default=None, ge=1, description="how often in all; absent: for ever")


class Overheat(_Order):
    """A motor's fan fails and its load rises."""

    do: Literal["overheat"]
    asset: str


class PressureDrop(_Order):
    """A pump leaks."""

    do: Literal["pressure_drop"]
    asset: str


class Jam(_Order):
    """A belt drags."""

    do: Literal["jam"]
    asset: str


class Recover(_Order):
    """Repair an asset with all its tags, one tag, or everything: machines sound, signals their own again, alarms released."""

    do: Literal["recover"]
    asset: str | None = None
    tag: str | None = None


class Set(_Order):
    """Hold a tag at a value until it recovers."""

    do: Literal["set"]
    tag: str
    to: Value


class RampTo(_Order):
    """Take a tag from where it is to another value, and hold it there until it recovers."""

    do: Literal["ramp"]
    tag: str
    to: float
    over_s: float = Field(gt=0)


class Drive(_Order):
    """Give a tag another signal until it recovers."""

    do: Literal["drive"]
    tag: str
    by: Signal


class Fail(_Order):
    """A sensor breaks: the tag's sentinel, or NaN, until it recovers."""

    do: Literal["fail"]
    tag: str


class AlarmOrder(_Order):
    """Raise or clear an alarm. Where its condition is a bit, the bit moves; else it is not judged until it recovers."""

    do: Literal["alarm"]
    alarm: str
    state: Literal["raised", "cleared"] = "raised"
    value: float | None = None


class Burst(_Order):
    """Raise ``count`` activations, in turn of ``alarms`` (none: all of the plant that a gateway publishes), within ``over_s``."""

    do: Literal["burst"]
    count: int = Field(ge=1, le=100_000)
    over_s: float = Field(default=0.0, ge=0)
    alarms: tuple[str, ...] = ()


class Log(_Order):
    """Write an entry of the PLC's event ring."""

    do: Literal["log"]
    code: int = Field(ge=0, le=65_535)
    value: float = 0.0


class Mode(StrEnum):
    """How a device misbehaves."""

    SLOW = "slow"
    SILENT = "silent"
    SHORT_REPLY = "short_reply"
    WRONG_FUNCTION = "wrong_function"
    RESET = "reset"
    EXCEPTION = "exception"
    WRONG_TRANSACTION = "wrong_transaction"
    WRONG_UNIT = "wrong_unit"
    GARBAGE = "garbage"
    LATE_REPLY = "late_reply"
    TRUNCATED = "truncated"
    BAD_CRC = "bad_crc"
    CLOSE = "close"
    REFUSE_CONNECTIONS = "refuse_connections"


class Misbehave(_Order):
    """Misbehave, until ``for_s`` are over or it happened ``times`` times; with neither, until told to behave.

    ``slow`` answers after ``delay_s``, and others wait behind it; ``late_reply`` too, but others do not wait. ``silent`` takes
    the request and does nothing. ``short_reply`` gives one register (or eight bits) less than asked, its byte count agreeing.
    ``wrong_function``, ``wrong_transaction``, ``wrong_unit``, ``bad_crc``: the answer of another. ``garbage``: random bytes.
    ``truncated``: half an answer. ``reset``: half an answer, then a connection reset. ``close``: the connection ends, without
    an answer. ``exception``: Modbus exception ``code``, nothing done. ``refuse_connections``: nobody listens, and open ones are
    reset. In all others a write is carried out before its answer is spoilt.
    """

    do: Literal["misbehave"]
    mode: Mode
    link: str | None = Field(default=None, description="absent: all")
    device_id: int | None = Field(default=None, ge=0, le=255, description="absent: all")
    on: Literal["any", "read", "write"] = "any"
    after: int = Field(default=0, ge=0, description="answer so many well before each one that is spoilt")
    for_s: float | None = Field(default=None, gt=0)
    times: int | None = Field(default=None, ge=1)
    delay_s: float = Field(default=2.0, gt=0)
    code: int = Field(default=4, ge=1, le=255)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        of_a_link = self.device_id is None and self.on == "any" and not self.after and self.times is None
        if self.mode is Mode.REFUSE_CONNECTIONS and not of_a_link:
            raise ValueError("refuse_connections is for a whole link, and takes only for_s")
        return self


class Behave(_Order):
    """End all misbehaviour, or that of one link or device."""

    do: Literal["behave"]
    link: str | None = None
    device_id: int | None = Field(default=None, ge=0, le=255)


class HoldWriteReply(_Order):
    """Carry out the next write, and answer it so much later."""

    do: Literal["hold_write_reply"]
    seconds: float = Field(gt=0)


class HoldReadReply(_Order):
    """Answer the next read so much later."""

    do: Literal["hold_read_reply"]
    seconds: float = Field(gt=0)


class Silent(_Order):
    """Neither answer nor do anything for a while."""

    do: Literal["silent"]
    seconds: float = Field(gt=0)


class Refuse(_Order):
    """Answer the next requests with a Modbus exception."""

    do: Literal["refuse"]
    code: int = Field(ge=1, le=255)
    times: int = Field(default=1, ge=1)


class Counts(_Order):
    """Report what was raised, published, written and asked so far."""

    do: Literal["counts"]


class Stop(_Order):
    """End the simulation."""

    do: Literal["stop"]


Order = Annotated[
    Overheat | PressureDrop | Jam | Recover | Set | RampTo | Drive | Fail | AlarmOrder | Burst | Log | Misbehave | Behave
    | HoldWriteReply | HoldReadReply | Silent | Refuse | Counts | Stop,
    Field(discriminator="do"),
]  # fmt: skip
ORDERS: TypeAdapter[Order] = TypeAdapter(Order)
"""Validates an order from a mapping."""


def as_misbehaviour(order: HoldWriteReply | HoldReadReply | Silent | Refuse) -> Misbehave:
    """Return what a short order stands for."""
    match order:
        case HoldWriteReply():
            return Misbehave(do="misbehave", mode=Mode.SLOW, on="write", delay_s=order.seconds, times=1)
        case HoldReadReply():
            return Misbehave(do="misbehave", mode=Mode.SLOW, on="read", delay_s=order.seconds, times=1)
        case Silent():
            return Misbehave(do="misbehave", mode=Mode.SILENT, for_s=order.seconds)
        case Refuse():
            return Misbehave(do="misbehave", mode=Mode.EXCEPTION, code=order.code, times=order.times)
