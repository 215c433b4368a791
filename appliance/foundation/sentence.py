"""The look of a sentence."""

from __future__ import annotations


def capital(text: str) -> str:
    """Return a sentence that begins with a capital, whatever name it begins with."""
    return text[:1].upper() + text[1:]


def literal(text: str) -> str:
    """Return text in which braces are no placeholders of a step's arguments."""
    return text.replace("{", "{{").replace("}", "}}")


def ended(text: str) -> str:
    """Return a sentence with a mark at its end, so that another may follow."""
    if not text or text[-1] in ".!?。！？":
        return text
    return text + ("。" if ord(text[-1]) > 0x2E7F else ".")  # CJK begins there
