"""What a server says of a refusal: its own words, without what it repeats of the request, and the numbers it names.

All of it is untrusted. A server that checks the form of a request repeats the request: then a person's words, or a machine's,
stand in its answer, and must not be taken for the server's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

_REPEATED = frozenset({"input", "inputs", "ctx", "body", "request", "prompt", "messages", "content"})
"""Members that repeat what was sent: of FastAPI's and pydantic's errors, and as servers of their own call it."""
_DEEPEST = 6
_OPENING = 600  # characters: of what is no JSON, or was cut, only the beginning is sure to be the server's own
_WINDOW = re.compile(r"maximum (?:context|model) length (?:is|of) (\d{3,8})(?!\d)", re.IGNORECASE)
_MOST_BEFORE = 200  # characters of an error's own message before the number
_MOST_COUNT = 2**40  # of tokens; beyond, it is no count


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a server's word is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_COUNT


def own_words(body: str) -> str:
    """Return what a refusal says, in small letters, without what it repeats."""
    try:
        told = json.loads(body)
        said = json.dumps(_without_repeated(told, _DEEPEST), ensure_ascii=False) if isinstance(told, dict | list) else str(told)
    except (ValueError, RecursionError):
        said = body.strip()[:_OPENING]
    return said.lower().strip()


def window_of(body: str) -> int:
    """Return the tokens a server says its window has; 0 if it does not say."""
    error = _error(body)
    if is_count(tokens := error.get("n_ctx")):  # llama.cpp
        return tokens
    message = error.get("message")
    found = _WINDOW.search(message[:_MOST_BEFORE]) if isinstance(message, str) else None  # OpenAI, DeepSeek, vLLM
    return int(found[1]) if found else 0


def prompt_tokens_of(body: str) -> int:
    """Return the tokens a server says a request has; 0 if it does not say."""
    return tokens if is_count(tokens := _error(body).get("n_prompt_tokens")) else 0


def _error(body: str) -> Mapping[str, Any]:
    """Return what a refusal is about: its member ``error``, or the whole of it."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    told = told if isinstance(told, dict) else {}
    return error if isinstance(error := told.get("error"), dict) else told


def _without_repeated(told: Any, deeper: int) -> Any:
    if isinstance(told, dict):
        return {name: _without_repeated(value, deeper - 1) for name, value in told.items() if name not in _REPEATED and deeper}
    if isinstance(told, list):
        return [_without_repeated(value, deeper - 1) for value in told if deeper]
    return told
