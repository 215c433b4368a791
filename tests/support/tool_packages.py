"""Tiny packages that bring tools, installed into a folder: modules and a dist-info with entry points, as an installer does it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOOL = """
from typing import ClassVar

from appliance.contracts.tool import (
    AccessLevel, Isolation, SchemaContract, SecurityContract, SlaContract, TelemetryContract, ToolContract,
)
from appliance.execution.fields import Fields


class Arguments(Fields):
    line: str


class Result(Fields):
    parts: int


class CountParts:
    contract: ClassVar[ToolContract] = ToolContract(
        name="{name}",
        description="Count the parts of a line",
        schema=SchemaContract(Arguments, Result, required_fields=({required})),
        sla=SlaContract(max_execution_time_ms=500),
        security=SecurityContract(AccessLevel.PUBLIC, "field"),
        telemetry=TelemetryContract("count.started", "count.done", "count.failed"),
        has_effect={has_effect},
        dependencies=({dependencies}),
        {more}
    )

    def __init__(self, ports=None):
        {init}

    async def run(self, call, arguments):
        {run}
"""


def tool(
    name: str,
    *,
    required: str = '"line",',
    dependencies: str = "",
    has_effect: bool = False,
    init: str = "self.ports = ports",
    run: str = 'return {"parts": len(arguments.line)}',
    more: str = "",
    above: str = "",
    below: str = "",
) -> str:
    """Return a module that holds one tool."""
    body = TOOL.replace("{name}", name).replace("{required}", required).replace("{dependencies}", dependencies)
    body = body.replace("{init}", init).replace("{run}", run).replace("{more}", more).replace("{has_effect}", str(has_effect))
    return f"{above}\n{body}\n{below}\n"


def install(folder: Path, package: str, modules: Mapping[str, str], *, version: str = "1.0") -> None:
    """Install a package whose entry points have the names of its modules' tools: ``name -> source``."""
    home = folder / package.replace("-", "_")
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("", encoding="utf-8")
    points = ["[floorhand.tools]"]
    for name, source in modules.items():
        (home / f"{name}.py").write_text(source, encoding="utf-8")
        points.append(f"{name} = {home.name}.{name}:CountParts")
    info = folder / f"{home.name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(points) + "\n", encoding="utf-8")
