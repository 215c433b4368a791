"""A DBOS workflow of three effects, killed inside the second; launched again in the same folder it is recovered."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.dbos_process import configured, use_wal
from bench.deadly_effect import STEPS, happen

_WORKFLOW = "bench-kill"


def main() -> None:
    """Begin the workflow, or wait for the end of the one that launching has recovered."""
    folder = Path(sys.argv[1])
    is_first = not (folder / "killed").exists()
    use_wal()
    step: Any = DBOS.step()(_effect)
    workflow: Any = DBOS.workflow()(_three_effects(folder, step))
    with configured(folder):
        DBOS.launch()
        if is_first:
            with SetWorkflowID(_WORKFLOW):
                workflow()
        else:
            DBOS.retrieve_workflow(_WORKFLOW).get_result()


def _effect(folder: str, name: str) -> str:
    happen(Path(folder), name)
    return name


def _three_effects(folder: Path, step: Any) -> Any:
    def three_effects() -> list[str]:
        return [step(str(folder), name) for name in STEPS]

    return three_effects


if __name__ == "__main__":
    main()
