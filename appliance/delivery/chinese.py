"""Chinese numbers, units and lists, spelled so that a synthesiser says them as people do."""

from __future__ import annotations

from appliance.delivery.tongue import Tongue


def _after(name: str) -> tuple[str, str]:
    return f"{{}}{name}", f"{{}}{name}"


_UNITS = {
    "": ("{}", "{}"),
    "degC": _after("摄氏度"),
    "degF": _after("华氏度"),
    "K": _after("开尔文"),
    "%": ("百分之{}", "百分之{}"),
    "bar": _after("巴"),
    "mbar": _after("毫巴"),
    "Pa": _after("帕"),
    "kPa": _after("千帕"),
    "MPa": _after("兆帕"),
    "psi": _after("磅每平方英寸"),
    "m/s": _after("米每秒"),
    "mm/s": _after("毫米每秒"),
    "m/min": _after("米每分钟"),
    "m/s2": _after("米每二次方秒"),
    "A": _after("安"),
    "mA": _after("毫安"),
    "V": _after("伏"),
    "mV": _after("毫伏"),
    "kV": _after("千伏"),
    "W": _after("瓦"),
    "kW": _after("千瓦"),
    "MW": _after("兆瓦"),
    "kWh": _after("千瓦时"),
    "Hz": _after("赫兹"),
    "kHz": _after("千赫"),
    "rpm": ("每分钟{}转", "每分钟{}转"),
    "l/min": _after("升每分钟"),
    "L/min": _after("升每分钟"),
    "L/h": _after("升每小时"),
    "m3/h": _after("立方米每小时"),
    "L": _after("升"),
    "m3": _after("立方米"),
    "um": _after("微米"),
    "mm": _after("毫米"),
    "cm": _after("厘米"),
    "m": _after("米"),
    "g": _after("克"),
    "kg": _after("千克"),
    "t": _after("吨"),
    "N": _after("牛"),
    "kN": _after("千牛"),
    "Nm": _after("牛米"),
    "dB": _after("分贝"),
    "ppm": ("百万分之{}", "百万分之{}"),
    "pcs": _after("件"),
    "pcs/min": _after("件每分钟"),
    "ms": _after("毫秒"),
    "s": _after("秒"),
    "min": _after("分钟"),
    "h": _after("小时"),
    "d": _after("天"),
}

CHINESE = Tongue(
    units=_UNITS,
    durations={unit: _UNITS[unit] for unit in ("s", "min", "h", "d")},
    between_durations="",
    minus="负",
    power="{}乘以10的{}次方",
    nearly_zero="约为0",
    on="开",
    off="关",
    yes="是",
    no="否",
    unknown="未知",
    bad="无法读取",
    stale="{age}前的最后有效值{value}",
    stale_ageless="最后有效值{value}",
    comma="、",
    final_and="和",
)
