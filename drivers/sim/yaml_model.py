"""Reads one YAML file into a model, and names what is wrong with it: file, key, cure, nearest valid name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from appliance.contracts.errors import ConfigError
from appliance.foundation.invalid_input import words_of
from appliance.foundation.strict_yaml import read_yaml

M = TypeVar("M", bound=BaseModel)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]*)\}")
_LONGEST_SHOWN = 60


def load_model(path: Path, model: type[M], variables: Mapping[str, str] | None = None) -> M:
    """Return the file as ``model``; ``${NAME:-default}`` becomes ``variables[NAME]`` or the default.

    Validators find the file's folder as ``info.context["folder"]``.

    Raises:
        ConfigError: no such file, not YAML, or not such a model; the message names every fault.
    """
    known = variables or {}
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", file=str(path), key="(file)", cure="Name one there is."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8", file=str(path), key=f"byte {error.start}", cure="Save it as UTF-8.") from error
    content = read_yaml(_VARIABLE.sub(lambda found: known.get(found[1], found[2]), text), str(path))
    if not isinstance(content, dict):
        raise ConfigError("is not a mapping", file=str(path), key="(file)", cure="Write `key: value` lines.")
    try:
        return model.model_validate(content, context={"folder": path.parent})
    except ValidationError as error:
        raise refused(error, model, str(path)) from error


def refused(error: ValidationError, model: type[BaseModel], file: str) -> ConfigError:
    """Return one error that names every fault; ``key`` is the first one's."""
    names = _field_names(model)
    faults = [_fault(dict(found), names) for found in error.errors(include_url=False)]
    (key, message, cure), *others = faults
    return ConfigError(message, file=file, key=key, cure=cure + "".join(f"; {k}: {m}. {c}" for k, m, c in others))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the cure for an unknown name: the nearest valid one, or all of them."""
    valid = sorted(known)
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid: {', '.join(valid[:30])}{' …' if len(valid) > 30 else ''}." if valid else "There is none."


def _fault(found: Mapping[str, Any], names: set[str]) -> tuple[str, str, str]:
    key = ".".join(str(part) for part in found["loc"]) or "(file)"
    match found["type"]:
        case "extra_forbidden":
            return key, "is not a known key", nearest(str(found["loc"][-1]), names)
        case "missing":
            return key, "is missing", f"Add `{found['loc'][-1]}:`."
        case "union_tag_invalid":
            asked, valid = found["ctx"]["tag"], re.findall(r"'([^']+)'", found["ctx"]["expected_tags"])
            return f"{key}.{found['ctx']['discriminator'].strip(chr(39))}", f"{asked!r} is not known", nearest(asked, valid)
        case "union_tag_not_found":
            return key, f"needs {found['ctx']['discriminator']}", "Say what it is."
    is_short = isinstance(found["input"], str | int | float)
    shown = f" (found {repr(found['input'])[:_LONGEST_SHOWN]})" if is_short else ""
    return key, f"{words_of(found)}{shown}", "Correct it."


def _field_names(model: type[BaseModel]) -> set[str]:
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return {name for part in parts for name in part.get("properties", {})}
