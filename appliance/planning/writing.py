"""Setting a value: what is refused before anybody is asked, and the question and the write that belong together.

The question is made here and nowhere else, from the plant model: it says exactly what will be written, in its unit.
"""

from __future__ import annotations

from appliance.contracts.errors import Refused
from appliance.contracts.plan import Step
from appliance.contracts.tag import DataType, Tag
from appliance.foundation.sentence import capital
from appliance.planning.tongue import Tongue


def guarded_write(
    tag: Tag, value: float, tongue: Tongue, *, ask: str = "confirm", write: str = "write", when: str = "", optional: bool = False
) -> tuple[Step, Step]:
    """Return the step that asks and the one that writes on a yes, under these ids. ``when`` is the condition of asking.

    Raises:
        Refused: it cannot be set, not so far, or not so finely; the message is the sentence to say.
    """
    lowest, highest = require_settable(tag, tongue)
    if not lowest <= value <= highest:
        # "from 0 to 100 percent": the unit is said once
        low, high = f"{lowest:.{tag.decimals}f}", tongue.value(highest, tag)
        raise refused(tongue, "out_of_limits", tag, low=low, high=high)
    if round(value, tag.decimals) != value:
        raise refused(tongue, "too_fine", tag, step=tongue.value(10.0**-tag.decimals, tag))
    said = names_of(tag, tongue) | {"value": tongue.value(value, tag)}
    arguments = {"key": tag.key, "value": int(value) if value.is_integer() else value, "what": tongue.reply("setting", **said)}
    question = {"question": tongue.reply("confirm_set", **said), "requires_keyword": True, "approves": write}
    expects = capital(tongue.reply("set_done", **said))
    return Step(ask, "ask", question, when, optional), Step(write, "write_tag", arguments, ask, optional, expects=expects)


def require_settable(tag: Tag, tongue: Tongue) -> tuple[float, float]:
    """Check that a tag takes a number; return its limits.

    Raises:
        Refused: it does not: a number that stands for a name would be read back as a number, and nobody knows what it means; the
            message is the sentence to say.
    """
    if not tag.writable or tag.type is DataType.BOOL:
        raise refused(tongue, "not_settable", tag)
    if tag.names or tag.flags or tag.low is None or tag.high is None:
        raise refused(tongue, "not_by_number", tag)
    return tag.low, tag.high


def refused(tongue: Tongue, reply: str, tag: Tag, **values: str) -> Refused:
    """Return the refusal that says ``reply`` about a tag."""
    return Refused(capital(tongue.reply(reply, **names_of(tag, tongue), **values)), tag=tag.key)


def names_of(tag: Tag, tongue: Tongue) -> dict[str, str]:
    """Return what replies about a tag name: its asset and its quantity, in words."""
    return {"asset": tongue.asset(tag.asset), "quantity": tongue.tag(tag.key)}
