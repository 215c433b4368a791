"""Selectors: where in a message a part stands. Pure.

The subset of JSONPath that a mapping needs: members, places and nothing that searches, so that the work a message can ask for is
bounded by the selector's own length. The grammar is ``contracts.topic_mapping.SELECTOR``, checked when the plant is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from appliance.contracts.errors import Malformed
from appliance.contracts.topic_mapping import SELECTOR
from drivers.mqtt.checked import ABSENT

_TOPIC = "$topic["
_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['([^']+)'\]|\[(\d+)\]", re.ASCII)


class Selector:
    """One selector, or a fixed text where it does not start with ``$``."""

    __slots__ = ("_fixed", "_level", "_steps", "text")

    def __init__(self, text: str) -> None:
        """Prepare ``text``.

        Raises:
            Malformed: it starts like a selector and is none.
        """
        self.text = text
        self._fixed: str | None = None
        self._level: int | None = None
        self._steps: tuple[str | int, ...] = ()
        if not text.startswith("$"):
            self._fixed = text
        elif SELECTOR.fullmatch(text) is None:
            raise Malformed(f"{text!r} is not a selector", selector=text)
        elif text.startswith(_TOPIC):
            self._level = int(text.removeprefix(_TOPIC).removesuffix("]"))
        else:
            found = _STEP.finditer(text)
            self._steps = tuple(int(step[3]) if step[3] else step[1] or step[2] for step in found)

    @property
    def is_of_content(self) -> bool:
        """Whether it looks into the message, not at its topic, and is no fixed text."""
        return self._fixed is None and self._level is None

    def select(self, content: Any, levels: Sequence[str]) -> Any:
        """Return what stands there, :data:`ABSENT` when nothing does. ``levels`` are those of the topic."""
        if self._fixed is not None:
            return self._fixed
        if self._level is not None:
            return levels[self._level] if self._level < len(levels) else ABSENT
        for step in self._steps:
            if isinstance(step, str):
                if not isinstance(content, dict) or step not in content:
                    return ABSENT
                content = content[step]
            elif not isinstance(content, list) or step >= len(content):
                return ABSENT
            else:
                content = content[step]
        return content


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a topic is meant by a filter (MQTT 5.0, section 4.7)."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if levels[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    for place, want in enumerate(wanted):
        if want == "#":
            return True
        if place >= len(levels) or want not in ("+", levels[place]):
            return False
    return len(wanted) == len(levels)
