"""Text that somebody else wrote: a controller's string, a gateway's payload, a document, what a model said. It is data.

It becomes one visible line of bounded length before it is spoken or stored as words, and gets a mark it cannot close before a
model reads it. What it asks for is never looked at: nothing here makes text safe to obey.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_DATA = 2_000
"""Characters of one piece of data in a prompt, unless less is asked for."""

_LONGEST_SOURCE = 80
_LOOKED_AT = 8  # times the characters wanted: the work for a text of any length is bounded, too
_CUT = "…"
_GONE = frozenset({"Cf", "Cs", "Co", "Cn"})  # formats (bidi, zero-width, tags), lone surrogates, private use, unassigned
_BLANK = re.compile(  # invisible, and yet a letter, a mark or a symbol by category
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ANGLES = str.maketrans({"<": "‹", ">": "›", "＜": "‹", "＞": "›", "﹤": "‹", "﹥": "›"})  # also those NFKC folds into < and >
_BRACKETED = re.compile(r"[\[［]\s*(/?\s*[A-Za-z_]{2,24})\s*[\]］]")  # [INST], [/INST], [TOOL_CALLS]: marks of chat templates
_SOURCE = re.compile(r"[^\w .,:/@#-]+")


def clean(text: str, most: int) -> str:
    """Return ``text`` as one line of at most ``most`` characters, without anything that cannot be seen. A longer one ends in "…".

    Composed (NFC) and not folded: units and Chinese punctuation stay as they were written.
    """
    begin = text[: _LOOKED_AT * most]
    if not begin.isprintable() or _BLANK.search(begin):
        begin = _BLANK.sub("", "".join(map(_visible, begin)))
    line = " ".join(unicodedata.normalize("NFC", begin).split())
    is_whole = len(line) <= most and len(text) <= _LOOKED_AT * most
    return line if is_whole else line[: max(most - 1, 0)].rstrip() + _CUT


def unmarked(text: str, most: int) -> str:
    """Return ``text`` cleaned, and without what a chat template takes for the mark of a role or of a tool's reply: servers read
    such marks also inside a message."""
    return clean(_BRACKETED.sub(r"(\1)", clean(text, most).translate(_ANGLES)), most)


def as_data(source: str, text: str, most: int = LONGEST_DATA) -> str:
    """Return ``text`` marked as data from ``source``, for a prompt. Inside is no ``<`` and no ``>``, so that it cannot be closed
    from within."""
    return f'<data from="{_SOURCE.sub(" ", clean(source, _LONGEST_SOURCE)).strip()}">{unmarked(text, most)}</data>'


def _visible(character: str) -> str:
    """Return a character, a space for a separator or control, nothing for what is invisible."""
    category = unicodedata.category(character)
    if category == "Cc" or category[0] == "Z":
        return " "
    return "" if category in _GONE else character
