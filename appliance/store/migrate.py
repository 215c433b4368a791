"""Brings a database file to the newest schema, one numbered step a transaction."""

from __future__ import annotations

import importlib.resources
import re
import sqlite3
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from appliance.contracts.errors import Refused

_NAME = re.compile(r"(\d{4})_[a-z_]+\.sql")


@cache
def steps() -> Mapping[int, str]:
    """Return the shipped migrations, number -> SQL, numbered from 1 without a gap."""
    folder = importlib.resources.files("appliance.store") / "migrations"
    found = {int(match[1]): file.read_text("utf-8") for file in folder.iterdir() if (match := _NAME.fullmatch(file.name))}
    return MappingProxyType(dict(sorted(found.items())))


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema number of an open database, 0 for an empty one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def refuse_newer(connection: sqlite3.Connection) -> None:
    """Check that this program knows the schema. Reads only.

    Raises:
        Refused: the file was written by a newer version.
    """
    newest, found = max(steps()), version_of(connection)
    if found > newest:
        raise Refused(
            f"the database has schema {found}, this version knows up to {newest}; install the newer version again",
            found=found,
            newest=newest,
        )


def migrate(connection: sqlite3.Connection, up_to: int | None = None) -> int:
    """Apply what is missing and return the schema number reached. A step that fails leaves the one before it.

    ``up_to`` stops at an older schema, which only what was written with that one is read into.

    Raises:
        Refused: the file was written by a newer version; it is not touched.
    """
    refuse_newer(connection)
    for number, sql in steps().items():
        if version_of(connection) < number <= (up_to or number):
            try:
                # executescript() manages no transaction of its own here: the script carries it, with its number.
                connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")
            finally:
                if connection.in_transaction:
                    connection.rollback()
    return version_of(connection)
