"""The look of a sentence."""

from __future__ import annotations

_CJK = 0x2E7F  # its characters begin behind this one


def capital(text: str) -> str:
    """Return a sentence that begins with a capital, whatever name it begins with."""
    return text[:1].upper() + text[1:]


def literal(text: str) -> str:
    """Return text in which braces are no placeholders of a step's arguments."""
    return text.replace("{", "{{").replace("}", "}}")


def joined(*parts: str) -> str:
    """Return sentences one behind the other: parted by a blank, and by none behind a full-width mark or before Chinese."""
    said = ""
    for part in (part.strip() for part in parts):
        is_close = bool(said and part) and (said[-1] in "。！？：；，、" or min(ord(said[-1]), ord(part[0])) > _CJK)
        said += part if is_close or not said or not part else f" {part}"
    return said


def ended(text: str) -> str:
    """Return a sentence with a mark at its end, so that another may follow."""
    if not text or text[-1] in ".!?。！？":
        return text
    return text + ("。" if ord(text[-1]) > _CJK else ".")
