"""Integers that begin with a zero: YAML 1.1 takes them for octal, so ``00017`` would silently be 15."""

from __future__ import annotations

import re

import yaml

_LEADING_ZERO = re.compile(r"[-+]?0[0-7_]+")
_INT = "tag:yaml.org,2002:int"


def octal_fault(node: yaml.Node) -> tuple[str, str] | None:
    """Return what is wrong with a plain integer that begins with a zero, and its cure; None for every other node."""
    if node.tag != _INT or not isinstance(node.value, str) or _LEADING_ZERO.fullmatch(node.value) is None:
        return None
    number = node.value.replace("_", "").lstrip("+0") or "0"
    return f"{node.value} begins with a zero, which YAML takes for octal", f'Write {number}, or "{node.value}" in quotes.'
