"""Sparkplug B payloads: protobuf bytes to metrics, and the one request we send. The only file that knows protobuf.

The schema is the part of Eclipse Tahu's public ``sparkplug_b.proto`` (package ``org.eclipse.tahu.protobuf``) that a host needs;
everything else in a payload is skipped by protobuf itself. Import it late: only a plant with Sparkplug topics pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from appliance.contracts.errors import Malformed
from drivers.mqtt.checked import most_bytes

_Field = descriptor_pb2.FieldDescriptorProto
_BOOL, _BYTES, _DOUBLE, _FLOAT = _Field.TYPE_BOOL, _Field.TYPE_BYTES, _Field.TYPE_DOUBLE, _Field.TYPE_FLOAT
_STRING, _UINT32, _UINT64 = _Field.TYPE_STRING, _Field.TYPE_UINT32, _Field.TYPE_UINT64

# Message -> (field, number, type or message); a leading * means repeated. Numbers: Sparkplug 3.0.0, section 6.4.1.
_SCHEMA: Mapping[str, tuple[tuple[str, int, int | str], ...]] = {
    "PropertyValue": (("type", 1, _UINT32), ("is_null", 2, _BOOL), ("int_value", 3, _UINT32), ("long_value", 4, _UINT64)),
    "PropertySet": (("*keys", 1, _STRING), ("*values", 2, "PropertyValue")),
    "Metric": (
        ("name", 1, _STRING),
        ("alias", 2, _UINT64),
        ("timestamp", 3, _UINT64),
        ("datatype", 4, _UINT32),
        ("is_historical", 5, _BOOL),
        ("is_null", 7, _BOOL),
        ("properties", 9, "PropertySet"),
        ("int_value", 10, _UINT32),
        ("long_value", 11, _UINT64),
        ("float_value", 12, _FLOAT),
        ("double_value", 13, _DOUBLE),
        ("boolean_value", 14, _BOOL),
        ("string_value", 15, _STRING),
        ("bytes_value", 16, _BYTES),
    ),
    "Payload": (("timestamp", 1, _UINT64), ("*metrics", 2, "Metric"), ("seq", 3, _UINT64)),
}
_PACKAGE = "org.eclipse.tahu.protobuf"
_VALUES = ("int_value", "long_value", "float_value", "double_value", "boolean_value", "string_value")

# Sparkplug 3.0.0, section 6.4.16: data types and the bits of the signed ones.
_SIGNED_BITS = {1: 8, 2: 16, 3: 32, 4: 64}
_UNSIGNED = (5, 6, 7, 8)
_BOOLEAN = 11
_OTHERS = (9, 10, 12, 13, 14, 15)  # float, double, string, date and time, text, UUID
_QUALITY = "Quality"  # section 6.4.11: 0 bad, 192 good, 500 stale
_STALE = 500

_LATEST_MS = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)

BD_SEQ = "bdSeq"
REBIRTH = "Node Control/Rebirth"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``value`` is None when the gateway says that there is none; ``why`` says why it is not to be relied on."""

    name: str
    alias: int | None
    datatype: int
    at: datetime | None
    value: Any
    is_historical: bool
    is_stale: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class SparkplugPayload:
    """What one message carries. ``seq`` is None where there is none (NDEATH)."""

    at: datetime | None
    seq: int | None
    metrics: tuple[Metric, ...]


def read_payload(topic: str, payload: bytes) -> SparkplugPayload:
    """Return the payload's parts. Values are as they came: :func:`typed` gives them the type their birth declared.

    Raises:
        Malformed: too long, or not such a payload.
    """
    if len(payload) > most_bytes(topic):
        raise Malformed(f"message on {topic}: {len(payload)} bytes, more than {most_bytes(topic)}", topic=topic)
    try:
        message = _PAYLOAD.FromString(payload)
    except DecodeError as error:
        raise Malformed(f"message on {topic}: not a Sparkplug B payload", topic=topic) from error
    at = _moment(message.timestamp) if message.HasField("timestamp") else None
    seq = int(message.seq) if message.HasField("seq") else None
    if seq is not None and seq > 255:
        raise Malformed(f"message on {topic}: seq {seq} is beyond 255", topic=topic, member="seq")
    return SparkplugPayload(at, seq, tuple(_metric(metric, at) for metric in message.metrics))


def typed(value: Any, datatype: int) -> tuple[Any, str]:
    """Return a metric's value as its data type says (-5 of an Int16 comes as 65531), or None and why it cannot be used."""
    if value is None:
        return None, ""
    if datatype in _SIGNED_BITS and isinstance(value, int):
        span = 2 ** _SIGNED_BITS[datatype]
        return (value + span // 2) % span - span // 2, ""
    if datatype in _UNSIGNED or datatype in _OTHERS:
        return value, ""
    if datatype == _BOOLEAN:
        return bool(value), ""
    return None, f"values of Sparkplug data type {datatype} are not read"


def rebirth_request(now: datetime) -> bytes:
    """Return the payload of an NCMD by which a host asks an edge node to tell everything again (section 6.4.23)."""
    at_ms = int(now.timestamp() * 1000)
    metric = {"name": REBIRTH, "timestamp": at_ms, "datatype": _BOOLEAN, "boolean_value": True}
    return bytes(_PAYLOAD(timestamp=at_ms, metrics=[metric]).SerializeToString())


def _metric(told: Any, payload_at: datetime | None) -> Metric:
    has_value = next((name for name in _VALUES if told.HasField(name)), None)
    is_null = told.is_null if told.HasField("is_null") else False
    quality = _quality(told)
    value = None if is_null or has_value is None else getattr(told, has_value)
    is_unreadable = has_value is None and not is_null
    return Metric(
        name=told.name,
        alias=int(told.alias) if told.HasField("alias") else None,
        datatype=told.datatype,
        at=_moment(told.timestamp) if told.HasField("timestamp") else payload_at,
        value=None if quality == 0 else value,
        is_historical=told.is_historical,
        is_stale=quality == _STALE,
        why="the gateway calls it bad" if quality == 0 else "has no value that can be read" if is_unreadable else "",
    )


def _quality(told: Any) -> int | None:
    for key, value in zip(told.properties.keys, told.properties.values, strict=False):
        if key == _QUALITY:
            return int(value.int_value)
    return None


def _moment(at_ms: int) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC) if 0 < at_ms < _LATEST_MS else None


def _payload_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="floorhand/sparkplug_b.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for told, number, kind in fields:
            label = _Field.LABEL_REPEATED if told.startswith("*") else _Field.LABEL_OPTIONAL
            field = message.field.add(name=told.lstrip("*"), number=number, label=label)
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()  # one of our own: the name may be taken in the shared one
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Payload"))


_PAYLOAD = _payload_class()
