"""``trend_of_tag``: how a value changed, in numbers and in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from appliance.contracts.history import MOST_MINUTES, TagHistory
from appliance.contracts.plant import Plant
from appliance.contracts.ports import Wording
from appliance.contracts.refusals import no_tag
from appliance.contracts.tag import DataType, Tag
from appliance.contracts.tool import (
    AccessLevel,
    SchemaContract,
    SecurityContract,
    SlaContract,
    TelemetryContract,
    ToolCall,
    ToolContract,
)
from appliance.execution.fields import Fields
from appliance.execution.trend import Course, Trend, trend_of


class Arguments(Fields):
    """``key`` is a tag key ``asset.name``; ``minutes`` is how far back it is looked."""

    key: str
    minutes: float = Field(default=30, ge=1, le=MOST_MINUTES)


class Gap(Fields):
    """Nothing good is known of this time, in seconds before now."""

    from_s_ago: float
    until_s_ago: float


class Result(Fields):
    """All numbers are of good values, in the tag's unit; none without one. ``slope`` is a change an hour, ``covers_s`` how far
    back the values reach. ``sentence`` says it."""

    known: bool
    course: Course | None
    first: float | None
    last: float | None
    lowest: float | None
    highest: float | None
    mean: float | None
    slope: float | None
    unit: str
    covers_s: float
    gaps: list[Gap]
    sentence: str


class TrendOfTag:
    """Reads what was kept of a tag. Too little of it is said, and is no failure."""

    contract: ClassVar[ToolContract] = ToolContract(
        name="trend_of_tag",
        description="Say how a value changed in the last minutes",
        schema=SchemaContract(Arguments, Result, required_fields=("key",)),
        sla=SlaContract(max_execution_time_ms=6_000, retries=1),
        security=SecurityContract(AccessLevel.PUBLIC, "field"),
        telemetry=TelemetryContract("trend_of_tag.started", "trend_of_tag.done", "trend_of_tag.failed"),
        has_effect=False,
    )

    def __init__(self, history: TagHistory, plant: Plant, wording: Wording) -> None:
        self._history = history
        self._plant = plant
        self._wording = wording

    async def run(self, call: ToolCall, arguments: Arguments) -> Mapping[str, object]:
        """Return the trend and the sentence in the turn's language.

        Raises:
            Refused: the tag is not declared.
            Unavailable: what was kept cannot be read now.
        """
        tag = self._plant.tag_by_key.get(arguments.key)
        if tag is None:
            raise no_tag(arguments.key)
        said = {"quantity": tag.key, "asset": tag.asset}
        if not _is_number(tag):
            return _nothing(tag, self._wording.reply("trend_no_number", call.language, **said))
        if not self._history.keeps(tag.key):
            return _nothing(tag, self._wording.reply("trend_not_kept", call.language, **said))
        trend = trend_of(await self._history.track(tag.key, arguments.minutes), tag)
        if trend is None:
            window = _time(arguments.minutes * 60)
            return _nothing(tag, self._wording.reply("trend_none", call.language, **said, window=window))
        return {
            "known": True,
            "course": trend.course,
            "first": trend.first,
            "last": trend.last,
            "lowest": trend.lowest,
            "highest": trend.highest,
            "mean": trend.mean,
            "slope": trend.slope_per_h,
            "unit": tag.unit,
            "covers_s": round(trend.window_s, 3),
            "gaps": [
                Gap(from_s_ago=round(trend.window_s - begin, 3), until_s_ago=round(trend.window_s - end, 3))
                for begin, end in trend.gaps
            ],
            "sentence": self._sentence(tag, trend, call.language),
        }

    def _sentence(self, tag: Tag, trend: Trend, language: str) -> str:
        name = f"trend_{trend.course}_lately" if trend.lately_s else f"trend_{trend.course}"
        # "from 61 to 74 degrees": the unit is said once
        values: dict[str, Any] = {
            "first": _quantity(tag, trend.first, unit=""),
            "last": _quantity(tag, trend.last),
            "lowest": _quantity(tag, trend.lowest, unit=""),
            "highest": _quantity(tag, trend.highest),
            "window": _time(trend.window_s),
            "lately": _time(trend.lately_s),
        }
        parts = [self._wording.reply(name, language, quantity=tag.key, asset=tag.asset, **values)]
        if trend.is_short:
            parts.insert(0, self._wording.reply("trend_short", language, window=_time(trend.window_s)))
        if trend.open_gap_s:
            parts.append(self._wording.reply("trend_gap_now", language, gap=_time(trend.open_gap_s)))
        closed_s = sum(end - begin for begin, end in trend.gaps) - trend.open_gap_s
        if closed_s:
            parts.append(self._wording.reply("trend_gap", language, gap=_time(closed_s)))
        text = " ".join(parts)
        return text[:1].upper() + text[1:]


def _is_number(tag: Tag) -> bool:
    return tag.type not in (DataType.BOOL, DataType.STRING) and not (tag.names or tag.flags)


def _nothing(tag: Tag, sentence: str) -> dict[str, object]:
    none = dict.fromkeys(("course", "first", "last", "lowest", "highest", "mean", "slope"))
    return {
        "known": False,
        **none,
        "unit": tag.unit,
        "covers_s": 0.0,
        "gaps": [],
        "sentence": sentence[:1].upper() + sentence[1:],
    }


def _quantity(tag: Tag, value: float, unit: str | None = None) -> dict[str, Any]:
    return {"value": value, "unit": tag.unit if unit is None else unit, "decimals": tag.decimals, "quality": "good", "age_s": 0}


def _time(seconds: float) -> dict[str, Any]:
    """Return a length of time as a quantity: in seconds below two minutes, else to the minute."""
    rounded = round(seconds) if seconds < 120 else round(seconds / 60) * 60
    return {"value": rounded, "unit": "s", "decimals": 0}
