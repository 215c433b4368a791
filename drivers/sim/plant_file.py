"""The plant model for the simulated plant: the same ``plant.yaml`` the appliance reads, so addresses have one source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from appliance.contracts.plant import Plant
from drivers.sim.yaml_model import load_model


def load_plant(path: Path, variables: Mapping[str, str] | None = None) -> Plant:
    """Read ``plant.yaml``; ``${NAME:-default}`` becomes ``variables[NAME]`` or the default.

    Raises:
        ConfigError: it cannot be read, or is not a plant model.
    """
    return load_model(path, Plant, variables)
