"""What requests of several addresses have in common: a person's word, and how much of a list is wanted."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

Limit = Annotated[int, Query(ge=1, le=1000)]
"""How many rows of a list are shown."""


class Body(BaseModel):
    """A request's body. What it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class Said(Body):
    """Who says so."""

    by: str = Field(min_length=1, max_length=100)


class Reasoned(Said):
    """A word that needs a reason."""

    reason: str = Field(min_length=1, max_length=2000)


class Noted(Said):
    """A word that needs a note: what was done, or why, in words."""

    note: str = Field(min_length=1, max_length=2000, pattern=r"\S")
