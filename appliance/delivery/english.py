"""English numbers, units and lists, spelled so that a synthesiser says them as people do."""

from __future__ import annotations

from appliance.delivery.tongue import Tongue


def _plain(one: str, many: str) -> tuple[str, str]:
    return f"{{}} {one}", f"{{}} {many}"


_UNITS = {
    "": ("{}", "{}"),
    "degC": _plain("degree Celsius", "degrees Celsius"),
    "degF": _plain("degree Fahrenheit", "degrees Fahrenheit"),
    "K": _plain("kelvin", "kelvin"),
    "%": _plain("percent", "percent"),
    "bar": _plain("bar", "bar"),
    "mbar": _plain("millibar", "millibar"),
    "Pa": _plain("pascal", "pascals"),
    "kPa": _plain("kilopascal", "kilopascals"),
    "MPa": _plain("megapascal", "megapascals"),
    "psi": _plain("P S I", "P S I"),
    "m/s": _plain("metre per second", "metres per second"),
    "mm/s": _plain("millimetre per second", "millimetres per second"),
    "m/min": _plain("metre per minute", "metres per minute"),
    "m/s2": _plain("metre per second squared", "metres per second squared"),
    "A": _plain("amp", "amps"),
    "mA": _plain("milliamp", "milliamps"),
    "V": _plain("volt", "volts"),
    "mV": _plain("millivolt", "millivolts"),
    "kV": _plain("kilovolt", "kilovolts"),
    "W": _plain("watt", "watts"),
    "kW": _plain("kilowatt", "kilowatts"),
    "MW": _plain("megawatt", "megawatts"),
    "kWh": _plain("kilowatt hour", "kilowatt hours"),
    "Hz": _plain("hertz", "hertz"),
    "kHz": _plain("kilohertz", "kilohertz"),
    "rpm": _plain("revolution per minute", "revolutions per minute"),
    "l/min": _plain("litre per minute", "litres per minute"),
    "L/min": _plain("litre per minute", "litres per minute"),
    "L/h": _plain("litre per hour", "litres per hour"),
    "m3/h": _plain("cubic metre per hour", "cubic metres per hour"),
    "L": _plain("litre", "litres"),
    "m3": _plain("cubic metre", "cubic metres"),
    "um": _plain("micrometre", "micrometres"),
    "mm": _plain("millimetre", "millimetres"),
    "cm": _plain("centimetre", "centimetres"),
    "m": _plain("metre", "metres"),
    "g": _plain("gram", "grams"),
    "kg": _plain("kilogram", "kilograms"),
    "t": _plain("ton", "tons"),
    "N": _plain("newton", "newtons"),
    "kN": _plain("kilonewton", "kilonewtons"),
    "Nm": _plain("newton metre", "newton metres"),
    "dB": _plain("decibel", "decibels"),
    "ppm": _plain("part per million", "parts per million"),
    "pcs": _plain("piece", "pieces"),
    "pcs/min": _plain("piece per minute", "pieces per minute"),
    "ms": _plain("millisecond", "milliseconds"),
    "s": _plain("second", "seconds"),
    "min": _plain("minute", "minutes"),
    "h": _plain("hour", "hours"),
    "d": _plain("day", "days"),
}

ENGLISH = Tongue(
    units=_UNITS,
    durations={unit: _UNITS[unit] for unit in ("s", "min", "h", "d")},
    between_durations=" ",
    minus="minus ",
    power="{} times 10 to the power of {}",
    nearly_zero="almost 0",
    on="on",
    off="off",
    yes="yes",
    no="no",
    unknown="unknown",
    bad="not readable",
    stale="last good value {value}, {age} ago",
    stale_ageless="last good value {value}",
    comma=", ",
    final_and=" and ",
)
