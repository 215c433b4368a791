"""Turns a failed validation into faults that name file, key, line and cure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from appliance.contracts.errors import ConfigError
from appliance.foundation.invalid_input import words_of
from appliance.settings_yaml import Document, Key

_ALIKE = 0.6  # difflib's default cutoff: ``hots`` finds ``host``, ``colour`` does not find ``port``


class ConfigFaults(ConfigError):
    """All faults of one configuration at once. ``faults`` holds them one by one, in file order."""

    def __init__(self, faults: Sequence[ConfigError]) -> None:
        first = faults[0]
        super().__init__(first.message, file=first.file, key=first.key, cure=first.cure)
        self.faults = tuple(faults)
        self.message = "\n".join(fault.message for fault in faults)
        self.args = (self.message,)
        self.facts = {"faults": [{**fault.facts, "message": fault.message} for fault in faults]}


def note_faults(document: Document, model: type[BaseModel], error: ValidationError) -> None:
    """Add each of pydantic's findings to ``document`` in words that help."""
    details = error.errors(include_url=False, include_input=False)
    for detail in details:
        if detail["type"] == "too_short" and any(_is_within(other["loc"], detail["loc"]) for other in details):
            continue  # it is too short because what is wrong in it does not count
        key = _shown_key(document.tree, detail)
        for message, cure in _words(model, key, detail):
            document.fault(key, message + (_of_entry(document.tree, key) if detail["type"] == "missing" else ""), cure)


def _is_within(inner: Sequence[int | str], outer: Sequence[int | str]) -> bool:
    return len(inner) > len(outer) and tuple(inner[: len(outer)]) == tuple(outer)


def _of_entry(tree: Any, key: Key) -> str:
    """Name the entry of a list that ``key`` leads into, as people know it: `` in motor_3.temperature``."""
    here, name = tree, ""
    for part in key[:-1]:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            break
        if isinstance(part, int) and isinstance(here, dict):
            known = [str(here[each]) for each in ("asset", "name") if here.get(each)]
            name = str(here.get("id") or ".".join(known))
    return f" in {name}" if name else ""


def _words(model: type[BaseModel], key: Key, detail: ErrorDetails) -> Iterator[tuple[str, str]]:
    kind = detail["type"]
    if kind == "extra_forbidden":
        yield "unknown key", nearest_cure(str(key[-1]), valid_names(model, key[:-1]))
    elif kind == "missing":
        yield "is missing", f"Add it{_meaning(model, key)}."
    elif kind == "value_error":
        yield words_of(detail), f"Correct it{_meaning(model, key)}."
    else:
        yield detail["msg"][:1].lower() + detail["msg"][1:], f"Correct the value{_meaning(model, key)}."


def nearest_cure(written: str, names: Sequence[str]) -> str:
    """Say which valid name was probably meant, or which ones there are."""
    if close := difflib.get_close_matches(written, names, n=1, cutoff=_ALIKE):
        return f"Did you mean {close[0]!r}?"
    return f"Valid here: {', '.join(sorted(names))}." if names else "Remove it."


def valid_names(model: type[BaseModel], key: Key) -> list[str]:
    """Return the keys allowed at ``key`` below ``model``; empty when any or none are."""
    found = _model_at(model, key)
    return [] if found is None else [field.alias or name for name, field in found.model_fields.items()]


def _meaning(model: type[BaseModel], key: Key) -> str:
    if not key:
        return ""
    parent = _model_at(model, key[:-1])
    field = parent.model_fields.get(str(key[-1])) if parent else None
    return f": {field.description}" if field is not None and field.description else ""


def _model_at(model: type[BaseModel], key: Key) -> type[BaseModel] | None:
    """Follow a key path through models, lists and mappings; unions are searched for the first model."""
    here: Any = model
    for part in key:
        here = _without_none(here)
        owner = _first_model(here)
        if owner is not None and isinstance(part, str) and part in owner.model_fields:
            here = owner.model_fields[part].annotation
        elif arguments := [each for each in get_args(here) if each is not Ellipsis]:
            here = arguments[-1]  # the item of a list, the value of a mapping
        else:
            return None
    return _first_model(here)


def _without_none(annotation: Any) -> Any:
    kept = [part for part in get_args(annotation) if part is not type(None)]
    return kept[0] if len(kept) == 1 and len(get_args(annotation)) == 2 else annotation


def _first_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if getattr(annotation, "__origin__", None) in (list, tuple, dict):
        return None
    for part in get_args(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _shown_key(tree: Any, detail: ErrorDetails) -> Key:
    """Drop the parts of pydantic's location that are not in the file (names of union members)."""
    here, shown = tree, []
    for part in detail["loc"]:
        is_there = (
            part in here if isinstance(here, dict) else isinstance(here, list) and isinstance(part, int) and part < len(here)
        )
        if is_there:
            here = here[part]
            shown.append(part)
    if detail["type"] == "missing":
        shown.append(detail["loc"][-1])
    return tuple(shown)
