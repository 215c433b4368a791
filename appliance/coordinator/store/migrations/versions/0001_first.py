"""Devices, streams, quarantine, work orders and feeds."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_STRICT: dict[str, Any] = {"sqlite_strict": True}
_KEYED: dict[str, Any] = {"sqlite_strict": True, "sqlite_with_rowid": False}


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "device",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("token_digest", sa.Text, nullable=False, unique=True),
        sa.Column("created_utc", sa.Text, nullable=False),
        sa.Column("revoked_utc", sa.Text),
        sa.Column("last_seen_utc", sa.Text),
        **_STRICT,
    )
    op.create_table(
        "stream_head",
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("lane", sa.Text, primary_key=True),
        sa.Column("seq", _SEQUENCE, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("updated_utc", sa.Text, nullable=False),
        **_KEYED,
    )
    op.create_table(
        "operation",
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("lane", sa.Text, primary_key=True),
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("entity", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("at_utc", sa.Text, nullable=False),
        sa.Column("clock_synced", sa.Integer, nullable=False),
        sa.Column("prev_hash", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("received_utc", sa.Text, nullable=False),
        sa.CheckConstraint("seq > 0", name="operation_seq"),
        **_KEYED,
    )
    reports = sa.text("kind = 'report.committed'")
    columns = ["received_utc", "device", "lane", "seq"]
    op.create_index("operation_report", "operation", columns, sqlite_where=reports, postgresql_where=reports)
    op.create_table(
        "quarantine",
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("lane", sa.Text, primary_key=True),
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("entity", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at_utc", sa.Text, nullable=False),
        **_KEYED,
    )
    op.create_table(
        "counter",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", _SEQUENCE, nullable=False),
        **_STRICT,
    )
    op.create_table(
        "work_order",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", _SEQUENCE, nullable=False, unique=True),
        sa.Column("device", sa.Text),
        sa.Column("asset", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_utc", sa.Text, nullable=False),
        sa.Column("updated_utc", sa.Text, nullable=False),
        sa.CheckConstraint("status IN ('open', 'in_progress', 'done', 'cancelled')", name="work_order_status"),
        **_STRICT,
    )
    op.create_table(
        "feed_head",
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("position", _SEQUENCE, nullable=False),
        **_STRICT,
    )
    op.create_table(
        "feed",
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("position", _SEQUENCE, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("at_utc", sa.Text, nullable=False),
        **_KEYED,
    )


def downgrade() -> None:
    """Refuse: what devices have been told is stored is never dropped."""
    raise RuntimeError("the first tables cannot be taken away")
