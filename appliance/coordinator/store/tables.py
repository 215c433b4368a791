"""Tables of the coordinator. Migrations make them; a test holds both together.

Times are ISO-8601 UTC text. Order is always a sequence: ``seq`` is the device's, ``position`` the coordinator's.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, MetaData, Table, Text, text

metadata = MetaData()

SEQUENCE = BigInteger().with_variant(Integer(), "sqlite")
_STRICT: dict[str, Any] = {"sqlite_strict": True}
_KEYED: dict[str, Any] = {"sqlite_strict": True, "sqlite_with_rowid": False}

device = Table(
    "device",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token_digest", Text, nullable=False, unique=True),
    Column("created_utc", Text, nullable=False),
    Column("revoked_utc", Text),
    Column("last_seen_utc", Text),
    **_STRICT,
)

# Locked by every push: whoever holds this row alone may extend the stream.
stream_head = Table(
    "stream_head",
    metadata,
    Column("device", Text, primary_key=True),
    Column("lane", Text, primary_key=True),
    Column("seq", SEQUENCE, nullable=False),
    Column("hash", Text, nullable=False),
    Column("updated_utc", Text, nullable=False),
    **_KEYED,
)

operation = Table(
    "operation",
    metadata,
    Column("device", Text, primary_key=True),
    Column("lane", Text, primary_key=True),
    Column("seq", SEQUENCE, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("entity", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at_utc", Text, nullable=False),
    Column("clock_synced", Integer, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("received_utc", Text, nullable=False),
    CheckConstraint("seq > 0", name="operation_seq"),
    **_KEYED,
)
_REPORTS = text("kind = 'report.committed'")
Index(
    "operation_report",
    operation.c.received_utc,
    operation.c.device,
    operation.c.lane,
    operation.c.seq,
    sqlite_where=_REPORTS,
    postgresql_where=_REPORTS,
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("device", Text, primary_key=True),
    Column("lane", Text, primary_key=True),
    Column("seq", SEQUENCE, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("entity", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at_utc", Text, nullable=False),
    **_KEYED,
)

counter = Table(
    "counter",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", SEQUENCE, nullable=False),
    **_STRICT,
)

work_order = Table(
    "work_order",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", SEQUENCE, nullable=False, unique=True),
    Column("device", Text),
    Column("asset", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_utc", Text, nullable=False),
    Column("updated_utc", Text, nullable=False),
    CheckConstraint("status IN ('open', 'in_progress', 'done', 'cancelled')", name="work_order_status"),
    **_STRICT,
)

# Counter row of a device's feed: taken in the transaction that writes the change, so positions commit in order.
feed_head = Table(
    "feed_head",
    metadata,
    Column("device", Text, primary_key=True),
    Column("position", SEQUENCE, nullable=False),
    **_STRICT,
)

feed = Table(
    "feed",
    metadata,
    Column("device", Text, primary_key=True),
    Column("position", SEQUENCE, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("at_utc", Text, nullable=False),
    **_KEYED,
)
