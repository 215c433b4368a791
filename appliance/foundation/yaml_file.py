"""Reads one YAML file and names what is wrong with it: file, key, cure, nearest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from appliance.contracts.errors import ConfigError
from appliance.foundation.invalid_input import words_of
from appliance.foundation.strict_yaml import read_yaml

M = TypeVar("M", bound=BaseModel)
Fault = tuple[str, str, str]
"""(key, what is wrong, cure)."""

_LONGEST_SHOWN = 60  # characters of what was found
_MOST_SHOWN = 30  # valid names: more are no help to anybody


def load_mapping(path: Path) -> dict[str, Any]:
    """Return the file's mapping.

    Raises:
        ConfigError: no such file, not UTF-8, not YAML, or not a mapping.
    """
    return parse_mapping(text_of(path), str(path))


def text_of(path: Path) -> str:
    """Return what a file holds.

    Raises:
        ConfigError: no such file, or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = f"cannot be read ({error.strerror})"
        raise ConfigError(why, file=str(path), key="(file)", cure="Create it, or name another.") from error
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8", file=str(path), key=f"byte {error.start}", cure="Save it as UTF-8.") from error


def parse_mapping(text: str, file: str, *, above: int = 0) -> dict[str, Any]:
    """Return the mapping that ``text`` holds; ``file`` is only named in errors, ``above`` the lines it has before.

    Raises:
        ConfigError: not YAML, or not a mapping.
    """
    content = read_yaml(text, file, above=above)
    if not isinstance(content, dict):
        raise ConfigError("is not a mapping", file=file, key="(file)", cure="Write `key: value` lines.")
    return content


def validate(model: type[M], content: Mapping[str, Any], file: str, context: Mapping[str, Any] | None = None) -> M:
    """Return ``content`` as ``model``, whose validators find ``context`` as ``info.context``.

    Raises:
        ConfigError: naming every fault; ``key`` is the first one's.
    """
    try:
        return model.model_validate(content, context=None if context is None else dict(context))
    except ValidationError as error:
        raise refuse(file, model_faults(model, error)) from error


def model_faults(model: type[BaseModel], error: ValidationError, prefix: str = "") -> list[Fault]:
    """Return each fault pydantic found, with the nearest valid name for an unknown key."""
    faults: list[Fault] = []
    for found in error.errors(include_url=False):
        key = prefix + ".".join(str(part) for part in found["loc"]) or "(file)"
        if found["type"] == "extra_forbidden":
            faults.append((key, "is not a known key", nearest(str(found["loc"][-1]), _keys_of(model))))
        elif found["type"] == "missing":
            faults.append((key, "is missing", f"Add `{found['loc'][-1]}:`."))
        elif found["type"].startswith("union_tag"):  # which of several models it is, is said by one of its keys
            faults.append(_kind_fault(key, found))
        else:
            faults.append((key, f"{words_of(found)}{_shown(found['input'])}", _cure(found)))
    return faults


def _shown(found: object) -> str:
    """Return a value as part of a sentence; a whole mapping or list, cut off, would tell nothing."""
    return "" if isinstance(found, Mapping | list) else f" (found {str(found)[:_LONGEST_SHOWN]!r})"


def _cure(found: ErrorDetails) -> str:
    if found["type"] != "string_type" or not isinstance(found["input"], bool | int | float | None):
        return "Correct it."
    told = "; without them no, off, yes and on are false and true" if isinstance(found["input"], bool) else ""
    return f"Put it in quotes{told}."


def _kind_fault(key: str, found: ErrorDetails) -> Fault:
    told = found["ctx"]
    name = str(told["discriminator"]).strip("'")
    if "tag" not in told:
        return f"{key}.{name}", "is missing", f"Add `{name}:`."
    known = [each.strip(" '") for each in str(told["expected_tags"]).split(",")]
    return f"{key}.{name}", f"there is no {name} {told['tag']!r} here", nearest(str(told["tag"]), known)


def refuse(file: str, faults: Iterable[Fault]) -> ConfigError:
    """Return one error that names every fault of a file."""
    return refuse_all([(file, fault) for fault in faults])


def refuse_all(faults: Sequence[tuple[str, Fault]]) -> ConfigError:
    """Return one error that names every fault of several files; ``file`` and ``key`` are the first one's."""
    (file, (key, message, cure)), *others = faults
    more = "".join(f"; {'' if f == file else f + ': '}{k}: {m}. {c}" for f, (k, m, c) in others)
    return ConfigError(message, file=file, key=key, cure=cure + more)


def fault_of(error: ConfigError) -> Fault:
    """Return the one fault an error names, to be gathered with others."""
    bare = error.message.removeprefix(f"{error.file}: {error.key}: ").removesuffix(f" {error.cure}").removesuffix(".")
    return error.key, bare, error.cure


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the cure for an unknown name: the nearest valid one, or all of them."""
    valid = sorted(known)
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    more = " …" if len(valid) > _MOST_SHOWN else ""
    return f"Valid: {', '.join(valid[:_MOST_SHOWN])}{more}." if valid else "There is none."


def _keys_of(model: type[BaseModel]) -> set[str]:
    """Keys of a model and of those it is made of; near enough to propose one."""
    schema = model.model_json_schema()
    return {key for part in (schema, *schema.get("$defs", {}).values()) for key in part.get("properties", {})}
