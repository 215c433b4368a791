"""A payload as a short text for a messenger's group: one title, some lines, no markup, bounded in bytes.

It is plain text and not markdown: what machines, errors and people said stands in it, and must become neither links, headings nor
calls for somebody.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

_CUT = "…"
_CALL, _HARMLESS = "<@", "< @"  # WeCom reads <@userid> also in plain text, and calls that person


def message_text(payload: Mapping[str, Any], *, lead: str, most_bytes: int) -> str:
    """Return the words of a payload: who tells it, ``title`` if there is one, ``text`` (lines), and ``link``.

    ``lead`` comes first: that it may be a repeat; empty otherwise. Longer ones are cut, so that they have at most ``most_bytes``
    in UTF-8 and no character is broken; the link stays whole.
    """
    head = f"[{payload.get('appliance', '')}] {lead}".rstrip()
    text = _visible(str(payload.get("text", "")))
    said = "\n".join(part for part in (f"{head} {_visible(str(payload.get('title', '')))}".rstrip(), text) if part)
    link = _visible(str(payload.get("link", "")))
    behind = f"\n{link}" if link else ""
    return cut(said.replace(_CALL, _HARMLESS), most_bytes - len(behind.encode())) + behind


def cut(text: str, most_bytes: int) -> str:
    """Return ``text`` of at most ``most_bytes`` in UTF-8; a longer one ends in "…"."""
    written = text.encode()
    if len(written) <= most_bytes:
        return text
    return written[: most_bytes - len(_CUT.encode())].decode(errors="ignore") + _CUT


def _visible(text: str) -> str:
    """Without control and format characters, except the ends of lines."""
    kept = (c if c == "\n" or unicodedata.category(c)[0] != "C" else " " for c in text)
    return "".join(kept).strip()
