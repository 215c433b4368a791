"""What may be written to a tag, and by which Modbus function."""

from __future__ import annotations

from appliance.contracts.errors import Refused
from appliance.contracts.reading import Value
from appliance.contracts.refusals import not_its_value, not_settable
from appliance.contracts.tag import DataType, Tag, WriteFunction
from drivers.modbus.codec import Codec
from drivers.modbus.data_types import NUMBER_FORMATS
from drivers.modbus.link import ModbusLink

_ILLEGAL_FUNCTION = 1  # Modbus Application Protocol 1.1b3, section 7


def permitted(tag: Tag, codec: Codec, value: Value) -> tuple[int, ...]:
    """Return the raw registers of ``value``.

    Raises:
        Refused: the tag is not writable, or ``value`` is none that it takes.
    """
    if not tag.writable:
        raise not_settable(tag, f"{tag.key} cannot be written ({tag.where})")
    try:
        raw = codec.encode(value)
    except Refused as error:
        not_its_value(tag, error)
        raise
    if tag.type in NUMBER_FORMATS and not (tag.names or tag.flags):
        low, high = tag.low, tag.high
        if isinstance(value, str) or low is None or high is None or not low <= value <= high:
            why = f"{tag.key} takes {low} to {high} {tag.unit}".rstrip() + f", not {value}"
            raise not_its_value(tag, Refused(why, tag=tag.key))
    return raw


async def write_raw(link: ModbusLink, tag: Tag, codec: Codec, raw: tuple[int, ...]) -> None:
    """Send one write, once. A bit of a register is written by a mask, in the device: never read here, changed and written back,
    for in between the machine may have changed another bit of it.

    Raises:
        Refused: the device says no; nothing was written.
        Unavailable: nothing was sent, or the device says not now.
        Uncertain: it was sent, and no good answer came.
    """
    if tag.type is not DataType.BOOL or tag.bit is None:
        is_multiple = tag.write_function is WriteFunction.MULTIPLE
        await link.write(tag.device_id, tag.kind, tag.address, raw, multiple=is_multiple)
        return
    try:
        await link.mask_write(tag.device_id, tag.address, and_mask=0xFFFF & ~codec.mask, or_mask=raw[0])
    except Refused as error:
        if error.facts.get("exception_code") != _ILLEGAL_FUNCTION:
            raise
        cure = "Have the PLC offer this bit as a coil, or declare the whole register as a tag with flags."
        why = f"{tag.key}: the device does not know mask write (function 22), the only safe way to write one bit of a register"
        raise Refused(why, tag=tag.key, cure=cure, exception_code=_ILLEGAL_FUNCTION) from error
