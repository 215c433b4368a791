"""Runs migrations on the connection handed over by ``store.database``, inside its transaction."""

from __future__ import annotations

from alembic import context

from appliance.coordinator.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
