"""Past incidents that come with the site: ``config/incidents.yaml`` into semantic memory, once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from appliance.contracts.errors import ConfigError, MemoryWriteRejected
from appliance.contracts.memory import MemoryDraft, Tier
from appliance.contracts.ports import MemoryWriter
from appliance.foundation.invalid_input import words_of
from appliance.foundation.strict_yaml import read_yaml

log = logging.getLogger(__name__)

SEED_SESSION = "seed"


class Incident(BaseModel):
    """One past incident. ``verified`` says that a person confirmed cause and remedy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    asset: str
    fault: str
    occurred_utc: datetime
    text: str = Field(min_length=1)
    cause: str = ""
    remedy: str = ""
    outcome: str = ""
    verified: bool = False

    @field_validator("occurred_utc", mode="before")
    @classmethod
    def _day_is_its_start(cls, value: Any) -> Any:
        return datetime.combine(value, time()) if isinstance(value, date) and not isinstance(value, datetime) else value

    @field_validator("occurred_utc")
    @classmethod
    def _is_utc(cls, value: datetime) -> datetime:
        return value if value.tzinfo else value.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Seeded:
    """What became of a file: incidents in it, and those validation refused with the reason."""

    incidents: int
    rejected: tuple[str, ...]


def load_incidents(path: Path) -> list[Incident]:
    """Read the file: a list, or a mapping with the list under ``incidents``.

    Raises:
        ConfigError: it cannot be read or an entry is wrong.
    """
    try:
        content = read_yaml(path.read_text("utf-8"), path.name)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path.name, key="-", cure="Check the path.") from error
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8", file=path.name, key=f"byte {error.start}", cure="Save it as UTF-8.") from error
    entries = content.get("incidents") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise ConfigError("holds no list of incidents", file=path.name, key="incidents", cure="Write a list.")
    incidents = []
    for place, entry in enumerate(entries):
        try:
            incidents.append(Incident.model_validate(entry))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join([f"incidents[{place}]", *map(str, first["loc"])])
            raise ConfigError(words_of(first), file=path.name, key=key, cure="Correct this entry.") from error
    return incidents


async def seed_incidents(memory: MemoryWriter, incidents: list[Incident], scope: str) -> Seeded:
    """Remember incidents under the key ``seed:ID``: loading them again changes nothing, and an incident whose text was
    changed in the file stays as it was first loaded.

    Raises:
        StorageFullError: no room; those before it stay.
    """
    rejected = []
    for incident in incidents:
        try:
            await memory.remember(_draft(incident, scope), key=f"seed:{incident.id}")
        except MemoryWriteRejected as error:
            rejected.append(f"{incident.id}: {error.message}")
    if rejected:
        log.warning("memory.seed_rejected", extra={"rejected": rejected})
    return Seeded(len(incidents), tuple(rejected))


def _draft(incident: Incident, scope: str) -> MemoryDraft:
    told = {"cause": incident.cause, "remedy": incident.remedy, "outcome": incident.outcome}
    facts = {name: value for name, value in told.items() if value}
    if incident.verified:
        facts["verified_by"] = "the site's incident file"
    return MemoryDraft(
        tier=Tier.SEMANTIC,
        scope=scope,
        asset=incident.asset,
        fault=incident.fault,
        text=incident.text,
        source_session=SEED_SESSION,
        confidence=1.0 if incident.verified else 0.5,
        verified=incident.verified,
        occurred_utc=incident.occurred_utc,
        facts=facts,
    )
