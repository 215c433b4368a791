"""The plant model for the simulated plant: the same ``plant.yaml`` the appliance reads, so addresses have one source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from appliance.contracts.plant import Plant

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]*)\}")


def load_plant(path: Path, variables: Mapping[str, str] | None = None) -> Plant:
    """Read ``plant.yaml``; ``${NAME:-default}`` becomes ``variables[NAME]`` or the default.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a plant model (``yaml.YAMLError`` and pydantic's error are not dressed up: a developer reads them).
    """
    known = variables or {}
    text = _VARIABLE.sub(lambda found: known.get(found[1], found[2]), path.read_text(encoding="utf-8"))
    return Plant.model_validate(yaml.safe_load(text))
