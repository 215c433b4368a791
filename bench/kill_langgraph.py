"""A LangGraph graph of three effects, killed inside the second; invoked again on the same thread it goes on."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.deadly_effect import STEPS, happen
from bench.langgraph_process import State, looping_graph, open_checkpoints, thread


def main() -> None:
    """Begin the conversation, or go on with it from its last checkpoint."""
    folder = Path(sys.argv[1])
    is_first = not (folder / "killed").exists()

    def step(state: State) -> State:
        happen(folder, STEPS[state["done"]])
        return {"done": state["done"] + 1}

    graph = looping_graph(open_checkpoints(folder), step)
    begun: State = {"done": 0, "steps": len(STEPS), "payload": ""}
    graph.invoke(begun if is_first else None, thread("bench-kill", len(STEPS)), durability="sync")


if __name__ == "__main__":
    main()
