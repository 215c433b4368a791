"""Shows what a scenario may say, from the models that check it: one source for the rules and for their explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TIMING = ("at_s", "every_s", "rounds")
"""Fields that every order has, shown once."""


def vocabulary(schema: Mapping[str, Any], discriminator: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, fields and explanation of each model that ``schema`` tells apart by ``discriminator``, by name."""
    shown_once = TIMING if discriminator == "do" else ()
    for model in sorted(schema["$defs"].values(), key=lambda each: str(each.get("properties", {}).get(discriminator))):
        properties = model.get("properties", {})
        if "const" not in properties.get(discriminator, {}):
            continue
        needed = set(model.get("required", ()))
        fields = [
            _choice(field, told, schema["$defs"]) if field in needed else f"[{_choice(field, told, schema['$defs'])}]"
            for field, told in properties.items()
            if field not in (discriminator, *shown_once)
        ]
        yield (
            properties[discriminator]["const"],
            " ".join(fields),
            " ".join(model.get("description", "").replace("``", "").split()),
        )


def _choice(field: str, told: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    named = models.get(str(told.get("$ref", "")).rpartition("/")[2], told)
    return f"{field}={'|'.join(map(str, named['enum']))}" if "enum" in named else field
