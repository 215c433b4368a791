"""The plant model: assets, tags and alarms, as ``config/plant.yaml`` declares them.

Frozen pydantic models, so that one declaration validates and documents. Names are the field's words.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from math import isfinite
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RegisterKind(StrEnum):
    """The four Modbus tables (Modbus Application Protocol 1.1b3, section 4.3)."""

    COIL = "coil"
    DISCRETE_INPUT = "discrete_input"
    INPUT_REGISTER = "input_register"
    HOLDING_REGISTER = "holding_register"


class DataType(StrEnum):
    """How registers decode."""

    BOOL = "bool"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    FLOAT32 = "float32"


class WordOrder(StrEnum):
    """Byte and word order of multi-register values: ABCD is big-endian both ways, CDAB swaps words.

    A value of one register is always big-endian, as Modbus itself says (Application Protocol 1.1b3, section 4.2).
    """

    ABCD = "ABCD"
    BADC = "BADC"
    CDAB = "CDAB"
    DCBA = "DCBA"


class Tag(_Frozen):
    """One value on the wire. ``address`` is the 0-based wire address; limits are in engineering units."""

    name: str
    asset: str
    link: str
    device_id: int = Field(ge=0, le=255)
    kind: RegisterKind
    address: int = Field(ge=0, le=65535)
    type: DataType
    word_order: WordOrder = WordOrder.ABCD
    scale: float = 1.0
    offset: float = 0.0
    unit: str = ""
    decimals: int = Field(default=0, ge=0, le=6)
    writable: bool = False
    low: float | None = None
    high: float | None = None
    sentinels: list[int] = Field(
        default_factory=list,
        description="unsigned raw values by which the device says 'no measurement', such as 0x8000 or 0xFFFF",
    )
    spoken: dict[str, list[str]] = Field(description="language -> names people say, first one is said back")

    @model_validator(mode="after")
    def _is_consistent(self) -> Tag:
        bits = self.kind in (RegisterKind.COIL, RegisterKind.DISCRETE_INPUT)
        if bits and self.type is not DataType.BOOL:
            raise ValueError(f"tag {self.name}: a {self.kind} holds a bool, not {self.type}")
        if not isfinite(self.scale) or not isfinite(self.offset) or self.scale == 0:
            raise ValueError(f"tag {self.name}: scale and offset must be finite, scale not 0")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError(f"tag {self.name}: low must not be above high")
        if self.writable and self.kind in (RegisterKind.DISCRETE_INPUT, RegisterKind.INPUT_REGISTER):
            raise ValueError(f"tag {self.name}: a {self.kind} cannot be writable; use a coil or holding_register")
        if self.writable and self.type is not DataType.BOOL and (self.low is None or self.high is None):
            raise ValueError(f"tag {self.name}: writable needs low and high")
        return self

    @property
    def key(self) -> str:
        """Unique name across the plant: ``asset.name``."""
        return f"{self.asset}.{self.name}"

    @property
    def register_count(self) -> int:
        """Registers (or bits) the value spans."""
        return 2 if self.type in (DataType.INT32, DataType.UINT32, DataType.FLOAT32) else 1


class Asset(_Frozen):
    """A machine. ``id`` like ``motor_3``; ``area`` like ``line_3``."""

    id: str
    area: str
    spoken: dict[str, list[str]]


class Priority(StrEnum):
    """Alarm priorities (ISA-18.2); urgency order is LOW < MEDIUM < HIGH < CRITICAL."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class AlarmDefinition(_Frozen):
    """One alarm. ``id`` is unique in the plant, ``source_id`` is the name the gateway publishes.

    ``text`` per language may use ``{value}``; it is spoken. ``tag`` names the measured value, if any.
    """

    id: str
    asset: str
    source_id: str
    priority: Priority
    fault: str = Field(description="fault class, shared by similar alarms: over_temperature, low_pressure, …")
    tag: str | None = None
    playbook: str
    text: dict[str, str]


class EventRing(_Frozen):
    """The PLC's event log: a ring in holding registers.

    ``address`` holds the running count of events written (uint16); from ``address + 1`` on follow ``entries``
    slots of four registers each: sequence, code, value (int16, tenths), seconds since PLC start.
    ``codes`` maps a code to its text per language.
    """

    link: str
    device_id: int
    address: int
    entries: int = Field(ge=1, le=100)
    codes: dict[int, dict[str, str]]


class Link(_Frozen):
    """A Modbus TCP link. Seconds for all times."""

    id: str
    host: str
    port: int = Field(ge=1, le=65535)
    timeout_s: float = Field(default=1.0, gt=0, le=60)
    retries: int = Field(default=1, ge=0, le=5)
    protocol: Literal["tcp"] = "tcp"


class Plant(_Frozen):
    """Everything the appliance knows about its line."""

    site: str
    links: list[Link]
    assets: list[Asset]
    tags: list[Tag]
    alarms: list[AlarmDefinition]
    event_log: EventRing | None = None

    @model_validator(mode="after")
    def _references_resolve(self) -> Plant:
        assets = {a.id for a in self.assets}
        links = {link.id for link in self.links}
        keys = [t.key for t in self.tags]
        faults: list[str] = []
        faults += [f"tag {t.key}: unknown asset {t.asset}" for t in self.tags if t.asset not in assets]
        faults += [f"tag {t.key}: unknown link {t.link}" for t in self.tags if t.link not in links]
        faults += [f"alarm {a.id}: unknown asset {a.asset}" for a in self.alarms if a.asset not in assets]
        faults += [f"alarm {a.id}: unknown tag {a.tag}" for a in self.alarms if a.tag and a.tag not in keys]
        faults += [f"tag {k}: declared twice" for k in sorted({k for k in keys if keys.count(k) > 1})]
        ids = [a.id for a in self.alarms]
        faults += [f"alarm {i}: declared twice" for i in sorted({i for i in ids if ids.count(i) > 1})]
        if self.event_log and self.event_log.link not in links:
            faults.append(f"event_log: unknown link {self.event_log.link}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @cached_property
    def tag_by_key(self) -> dict[str, Tag]:
        """``asset.name`` -> Tag."""
        return {t.key: t for t in self.tags}

    @cached_property
    def asset_by_id(self) -> dict[str, Asset]:
        """Asset id -> Asset."""
        return {a.id: a for a in self.assets}

    @cached_property
    def alarm_by_id(self) -> dict[str, AlarmDefinition]:
        """Alarm id -> AlarmDefinition."""
        return {a.id: a for a in self.alarms}

    @cached_property
    def alarm_by_source_id(self) -> dict[str, AlarmDefinition]:
        """The gateway's alarm name -> AlarmDefinition."""
        return {a.source_id: a for a in self.alarms}
