"""Reads one YAML file of the simulated plant into a model, with what the environment says put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from appliance.foundation.yaml_file import parse_mapping, text_of, validate

M = TypeVar("M", bound=BaseModel)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]*)\}")


def load_model(path: Path, model: type[M], variables: Mapping[str, str] | None = None) -> M:
    """Return the file as ``model``; ``${NAME:-default}`` becomes ``variables[NAME]`` or the default.

    Validators find the file's folder as ``info.context["folder"]``.

    Raises:
        ConfigError: no such file, not YAML, or not such a model; the message names every fault.
    """
    known = variables or {}
    text = _VARIABLE.sub(lambda found: known.get(found[1], found[2]), text_of(path))
    return validate(model, parse_mapping(text, str(path)), str(path), {"folder": path.parent})
