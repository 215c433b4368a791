"""Finds out which pages of a damaged database belong to what, and how many rows each table had as far as its indexes tell.

In: a :class:`PageFile` and an empty database of the same schema, which says what rows look like. Out: pages by table. Pages that
lost what pointed to them are given to the one table whose rows look like theirs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from appliance.store.page_file import INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE, Cell, PageFile, Unreadable, Value

_INDEX_KINDS = (INTERIOR_INDEX, LEAF_INDEX)
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "REAL": (float, int), "BLOB": (bytes,)}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table's rows look like. ``alias``: the column that is the rowid, and NULL in the record; -1 for none."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    nullable: tuple[bool, ...]
    fewest: int
    alias: int
    has_rowid: bool

    def row(self, cell: Cell) -> tuple[Value, ...] | None:
        """Return the row of a cell, or None when it cannot be one of this table. Older rows may lack the last columns."""
        record = cell.record
        if record is None or not self.fewest <= len(record) <= len(self.columns):
            return None
        for place, value in enumerate(record):
            if value is None:
                if place != self.alias and not self.nullable[place]:
                    return None
            elif place == self.alias or not isinstance(value, _TYPES[self.types[place]]):
                return None
        if self.alias < 0:
            return record
        return (*record[: self.alias], cell.rowid, *record[self.alias + 1 :])


@dataclass(slots=True)
class Tree:
    """The pages of one table or index. ``spoilt``: pages and entries of it that cannot be read. ``entries`` were counted."""

    pages: list[int] = field(default_factory=list)
    entries: int = 0
    spoilt: int = 0


def shapes_of(empty: sqlite3.Connection) -> dict[str, Shape]:
    """Return the shape of every table with rows of its own, by name; shadow and virtual tables are not among them."""
    found: dict[str, Shape] = {}
    for name, kind, without_rowid in empty.execute(
        "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main'"
    ).fetchall():
        if kind != "table" or name.startswith("sqlite_"):
            continue
        columns = empty.execute(f"SELECT name, type, \"notnull\", pk, dflt_value FROM pragma_table_info('{name}')").fetchall()
        keys = sum(1 for column in columns if column[3])
        alias = next((p for p, c in enumerate(columns) if c[3] and c[1] == "INTEGER" and keys == 1 and not without_rowid), -1)
        needed = [place for place, column in enumerate(columns) if (column[4] is None and column[2]) or column[3]]
        found[name] = Shape(
            name=name,
            columns=tuple(column[0] for column in columns),
            types=tuple(column[1] for column in columns),
            nullable=tuple(not column[2] and not column[3] for column in columns),
            fewest=max(needed, default=0) + 1,
            alias=alias,
            has_rowid=not without_rowid,
        )
    return found


class Survey:
    """What was found. ``tables`` and ``indexes`` by name; ``index_of`` says which table an index is complete for.

    ``unplaced`` are pages with rows that nobody can be sure to be of one table, or to be in use at all.
    """

    def __init__(self, file: PageFile, shapes: dict[str, Shape], empty: sqlite3.Connection) -> None:
        self._file = file
        self._shapes = shapes
        self._empty = empty
        self._seen: set[int] = set()
        self.tables: dict[str, Tree] = {}
        self.indexes: dict[str, Tree] = {}
        self.index_of: dict[str, str] = {}
        self.unplaced: list[int] = []
        schema = self._walk(1, is_index=False)
        lost_schema = self._pages_of_schema() if schema.spoilt else []
        for cell in self._cells([*schema.pages, *lost_schema]):
            self._take_schema_row(cell)
        self._place_orphans()

    def rows(self, table: str) -> Iterator[tuple[Value, ...]]:
        """Yield the rows of a table, in the order of its pages."""
        shape = self._shapes[table]
        for cell in self._cells(self.tables.get(table, Tree()).pages):
            if (row := shape.row(cell)) is not None:
                yield row

    def plain_rows(self, table: str) -> Iterator[tuple[int, tuple[Value, ...]]]:
        """Yield rowid and record of a table whose shape is not known (a shadow table, ``sqlite_sequence``)."""
        for cell in self._cells(self.tables.get(table, Tree()).pages):
            if cell.record is not None:
                yield cell.rowid, cell.record

    def known_count(self, table: str) -> int | None:
        """Return how many rows the table had, by its most complete whole index, or itself if it is whole; None if unknown."""
        tree = self.tables.get(table)
        if tree is not None and not tree.spoilt:
            return tree.entries
        counts = [
            self.indexes[index].entries
            for index, of in self.index_of.items()
            if of == table and not self.indexes[index].spoilt and self.indexes[index].pages
        ]
        return max(counts, default=None)

    def _pages_of_schema(self) -> list[int]:
        """Find the pages that list tables and indexes, where the first page does not lead to them any more."""
        found: list[int] = []
        for number in range(2, self._file.page_count + 1):
            try:
                cells = self._file.cells(number)[0] if self._file.kind(number) == LEAF_TABLE else []
            except Unreadable:
                continue
            if cells and all(_is_schema_row(cell) for cell in cells):
                self._seen.add(number)
                found.append(number)
        return found

    def _take_schema_row(self, cell: Cell) -> None:
        match cell.record:
            case ("table", str(name), str(), int(root), str(sql)) if root > 0 and name not in self.tables:
                without_rowid = name in self._shapes and not self._shapes[name].has_rowid
                self.tables[name] = self._walk(root, is_index=without_rowid or "WITHOUT ROWID" in sql.upper())
            case ("index", str(name), str(table), int(root), sql) if root > 0 and name not in self.indexes:
                self.indexes[name] = self._walk(root, is_index=True)
                if sql is None or " WHERE " not in str(sql).upper():
                    self.index_of[name] = table

    def _walk(self, root: int, *, is_index: bool) -> Tree:
        """Collect a tree's pages that carry rows, in order."""
        tree, waiting = Tree(), [root]
        while waiting:
            number = waiting.pop()
            try:
                kind = self._file.kind(number)
                if number in self._seen or (kind in _INDEX_KINDS) != is_index:
                    raise Unreadable(f"page {number} is of another tree")
                cells, right, spoilt = self._file.cells(number)
            except Unreadable:
                tree.spoilt += 1
                continue
            self._seen.add(number)
            tree.spoilt += spoilt
            if kind != INTERIOR_TABLE:
                tree.pages.append(number)
                tree.entries += len(cells)
            if kind in (INTERIOR_INDEX, INTERIOR_TABLE):
                waiting += [right, *(cell.child for cell in reversed(cells))]
        return tree

    def _cells(self, pages: list[int]) -> Iterator[Cell]:
        for number in pages:
            try:
                yield from self._file.cells(number)[0]
            except Unreadable:  # it could be read a moment ago: the device gives less and less
                continue

    def _place_orphans(self) -> None:
        """Give pages nobody points to to the table they look like: whoever pointed to them was damaged.

        A page that was freed is not in use, though its rows may still be there. When nobody can tell (the freelist is damaged
        too) only rows that carry their own proof, the operation log's, are taken.
        """
        free = self._file.free_pages()
        for number in range(2, self._file.page_count + 1):
            if number in self._seen or (free is not None and number in free):
                continue
            try:
                kind = self._file.kind(number)
                cells, _, spoilt = self._file.cells(number)
            except Unreadable:
                continue
            if kind == INTERIOR_TABLE or not cells:
                continue
            table = self._looks_like(cells, has_rowid=kind == LEAF_TABLE)
            if table is None or (free is None and table != "operation"):
                if kind == LEAF_TABLE:
                    self.unplaced.append(number)
                continue
            tree = self.tables.setdefault(table, Tree(spoilt=1))
            tree.pages.append(number)
            tree.entries += len(cells)
            tree.spoilt += 1 + spoilt  # its own number is not sure any more

    def _looks_like(self, cells: list[Cell], *, has_rowid: bool) -> str | None:
        fitting = [
            shape
            for shape in self._shapes.values()
            if shape.has_rowid == has_rowid
            and all(shape.row(cell) is not None for cell in cells)
            and self._is_taken(shape, cells[0])
        ]
        broken = [shape for shape in fitting if shape.name not in self.tables or self.tables[shape.name].spoilt]
        chosen = fitting if len(fitting) == 1 else broken
        return chosen[0].name if len(chosen) == 1 else None

    def _is_taken(self, shape: Shape, cell: Cell) -> bool:
        """Whether the table's own rules accept a row."""
        row = shape.row(cell)
        assert row is not None
        self._empty.execute("SAVEPOINT trial")
        try:
            self._empty.execute(insert_of(shape, len(row), how="INSERT OR REPLACE"), row)  # a migration may have put a row there
        except sqlite3.Error:
            return False
        finally:
            self._empty.execute("ROLLBACK TO trial")
            self._empty.execute("RELEASE trial")
        return True


def _is_schema_row(cell: Cell) -> bool:
    match cell.record:
        case ("table" | "index" | "trigger" | "view", str(), str(), int(), str() | None):
            return True
    return False


def insert_of(shape: Shape, values: int, *, how: str = "INSERT") -> str:
    """Return the statement that puts a row of so many values into the table."""
    return f"{how} INTO {shape.name} ({', '.join(shape.columns[:values])}) VALUES ({', '.join('?' * values)})"
