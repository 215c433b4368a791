"""Numbers as expressions: every number of a range, in every way :mod:`spoken_numbers` understands, and no other number."""

from __future__ import annotations

from appliance.planning.expressions import EMPTY, NOTHING, Expression, Rules, Word, choice, optional, sequence, words
from appliance.planning.spoken_numbers import HIGHEST, ONES, TEENS, TENS, ZH_DIGITS


def numbers(lowest: int, highest: int, tenths: bool, language: str, rules: Rules, name: str = "number") -> Expression:
    """Return what says each whole number of ``lowest..highest`` (|n| <= 9999), with one decimal if ``tenths``.

    ``name`` is the rule it defines, beside rules for the parts that all numbers share. A language without number words says
    nothing here, so that its grammar has no numbers.
    """
    if language not in ("en", "zh"):
        return NOTHING
    up_to = _english_said_alone if language == "en" else _chinese
    zero, minus, point = ("zero", "minus", "point") if language == "en" else ("零", "负", "点")
    digits = choice(*(Word(d) for d in (ONES if language == "en" else ZH_DIGITS)))
    positive = choice(Word(zero), up_to(min(highest, HIGHEST), rules)) if highest >= 0 and lowest <= 0 else NOTHING
    if lowest > 0:  # a range that starts above zero still names smaller numbers, so that they can be refused
        positive = up_to(min(highest, HIGHEST), rules)
    whole = rules.define(name, positive)
    fraction = optional(sequence(Word(point), digits)) if tenths else EMPTY
    said = sequence(whole, fraction)
    if lowest < 0:
        negative = rules.define(f"{name}_below_zero", up_to(min(-lowest, HIGHEST), rules))
        said = choice(said, sequence(Word(minus), negative, fraction))
    return said


def _english_said_alone(highest: int, rules: Rules) -> Expression:
    return _english(highest, rules, first=words("a"))


def _english(highest: int, rules: Rules, first: Expression = NOTHING) -> Expression:
    """1..highest. ``first`` may stand for "one" before the largest scale: a hundred, but not two thousand a hundred."""
    if highest < 1:
        return NOTHING
    if highest < 10:
        return choice(*(Word(w) for w in ONES[1 : highest + 1]))
    if highest < 20:
        return choice(*(Word(w) for w in ONES[1:] + TEENS[: highest - 9]))
    if highest < 100:
        tens, rest = divmod(highest, 10)
        ones = rules.define("number_1_9", _english(9, rules))
        return choice(
            _english(19, rules),
            sequence(choice(*(Word(w) for w in TENS[2:tens])), optional(ones)),
            sequence(Word(TENS[tens]), optional(_english(rest, rules))),
        )
    scale, name = (100, "hundred") if highest < 1000 else (1000, "thousand")
    below = rules.define(f"number_below_{name}", _english(scale - 1, rules))
    many, rest = divmod(highest, scale)

    def scaled(heads: Expression, tail: Expression) -> Expression:
        return sequence(heads, Word(name), optional(sequence(optional(Word("and")), tail)) if tail != NOTHING else EMPTY)

    heads = [choice(words("one"), first), *(Word(w) for w in ONES[2 : many + 1])]
    full = choice(*heads[:-1])
    return choice(
        below,
        scaled(full, below) if full != NOTHING else NOTHING,
        scaled(heads[-1], _english(rest, rules)),
    )


def _chinese(highest: int, rules: Rules) -> Expression:
    """1..highest, one character a word: recognisers have the characters, not every number, in their lexicon."""
    if highest < 1:
        return NOTHING
    if highest < 10:
        return choice(*(Word(c) for c in ZH_DIGITS[1 : highest + 1]))
    ones = rules.define("number_1_9", _chinese(9, rules))
    if highest < 100:
        tens, rest = divmod(highest, 10)
        full = choice(*((Word(c) if c != "一" else EMPTY) for c in ZH_DIGITS[1:tens])) if tens > 1 else NOTHING
        last = Word(ZH_DIGITS[tens]) if tens > 1 else EMPTY
        return choice(
            ones,
            sequence(full, Word("十"), optional(ones)),
            sequence(last, Word("十"), optional(_chinese(rest, rules))),
        )
    scale, name = (100, "百") if highest < 1000 else (1000, "千")
    below = rules.define(f"number_below_{scale}", _chinese(scale - 1, rules))
    many, rest = divmod(highest, scale)
    full = choice(*(Word(c) for c in ZH_DIGITS[1:many]))
    return choice(
        below,
        sequence(full, Word(name), optional(_chinese_rest(scale - 1, scale, rules))),
        sequence(Word(ZH_DIGITS[many]), Word(name), optional(_chinese_rest(rest, scale, rules))),
    )


def _chinese_rest(highest: int, scale: int, rules: Rules) -> Expression:
    """1..highest after a word of ``scale``: 一百**零五**, 一百**一十五**, 一千**零五十**, 一千**二百**."""
    step = scale // 10
    small = _spoken_in_full(min(highest, step - 1), rules)
    if highest < step:
        return sequence(Word("零"), small)
    return choice(sequence(Word("零"), small), _spoken_in_full_from(step, highest, rules))


def _spoken_in_full(highest: int, rules: Rules) -> Expression:
    """1..highest where ten is 一十, as it is inside larger numbers."""
    if highest < 10:
        return _chinese(highest, rules)
    return choice(_chinese(9, rules), _spoken_in_full_from(10, highest, rules))


def _spoken_in_full_from(step: int, highest: int, rules: Rules) -> Expression:
    """step..highest; ``step`` is 10 or 100."""
    many, rest = divmod(highest, step)
    name = Word({10: "十", 100: "百"}[step])
    full = choice(*(Word(c) for c in ZH_DIGITS[1:many]))

    def tail(up_to: int) -> Expression:
        return optional(_chinese(up_to, rules) if step == 10 else _chinese_rest(up_to, step, rules))

    return choice(sequence(full, name, tail(step - 1)), sequence(Word(ZH_DIGITS[many]), name, tail(rest)))
