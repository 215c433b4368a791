"""The story is told once; the tests of this folder look at what came of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.story import Told, tell


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return asyncio.run(tell(tmp_path_factory.mktemp("story")))
