"""A LangGraph graph in this process, with its SQLite checkpointer in the mode of our ledger."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"  # nothing of a bench goes to anybody

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    """``done`` of ``steps`` are done, the last one left ``payload``."""

    done: int
    steps: int
    payload: str


def open_checkpoints(folder: Path) -> sqlite3.Connection:
    """Open ``folder/langgraph.sqlite``: WAL, as the checkpointer sets it up itself, and ``synchronous = FULL``."""
    db = sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def looping_graph(db: sqlite3.Connection, node: Callable[[State], State]) -> Any:
    """Return a graph whose one node runs until ``done`` has come to ``steps``."""
    builder: Any = StateGraph(State)
    builder.add_node("step", node)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if state["done"] < state["steps"] else END, ["step", END])
    return builder.compile(checkpointer=SqliteSaver(db))


def thread(name: str, steps: int) -> dict[str, Any]:
    """Return the configuration of one conversation."""
    return {"configurable": {"thread_id": name}, "recursion_limit": steps + 10}


def mode_of(db: sqlite3.Connection) -> str:
    """Return the modes the connection is in."""
    journal, synchronous = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))
    return f"journal {journal}, synchronous {synchronous}"
