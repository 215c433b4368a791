"""What the local API does on a full card: what must go on does, and nothing else takes the room that is left for alarms."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from appliance.console.acts import Acts
from appliance.console.full_card import GOES_ON
from appliance.console.routes import build_api
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench
from tests.support.tokens import Desk, desk_of

pytestmark = [pytest.mark.req("R8", "R10"), pytest.mark.field("FC-D01")]

FULL = "no room left beside ledger.sqlite; what is left is kept for alarms"


class Site:
    """The local API with every address there is, over a real ledger and real tokens. ``why`` is what is said of the room."""

    def __init__(self, bench: Bench, desk: Desk) -> None:
        self.bench, self.desk, self.why = bench, desk, ""
        nobody: Any = object()  # whoever is asked all the same fails: 500, never 507
        acts = Acts(**{each.name: nobody for each in dataclasses.fields(Acts)} | {"tokens": desk.tokens})
        core = StandInCore(nobody, nobody)
        api = build_api(core, bench.database, dict, language="en", acts=acts, refuses_talk=lambda: self.why)
        self.acting = {route.path for route in api.routes if isinstance(route, APIRoute) and "POST" in route.methods}
        transport = httpx.ASGITransport(api, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://floorhand")

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(re.sub(r"\{[^}]*\}", "1", path), json=body)

    async def written(self) -> int:
        return int((await self.bench.one("SELECT count(*) AS n FROM operation"))["n"])


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_bench(tmp_path) as bench:
        opened = Site(bench, desk_of(bench, tmp_path))
        async with opened.http:
            yield opened


async def test_whatever_acts_and_is_not_named_is_refused_until_there_is_room(site: Site) -> None:
    assert site.acting > GOES_ON, "a name without its address lets nothing through"
    site.why = FULL
    answers = {path: await site.post(path) for path in site.acting}
    assert {path for path, answer in answers.items() if answer.status_code != 507} == GOES_ON
    refused = answers["/v1/tokens"].json()
    assert (refused["code"], refused["message"]) == ("storage_full", FULL) and "Free space" in refused["cure"]
    assert (await site.http.get("/v1/audit")).status_code == 200, "reading goes on"
    site.why = ""
    assert 507 not in [(await site.post(path)).status_code for path in site.acting]


async def test_revoking_ids_that_were_invented_takes_no_room_from_alarms(site: Site) -> None:
    """A revocation is small, but who may open the socket may ask for as many as they like."""
    wanted = {"person": "ana", "role": "operator", "hours": 1, "by": "root"}
    before = await site.written()
    site.why = FULL
    for number in range(20):
        answer = await site.post("/v1/tokens/revoke", id=f"tok_{number:04x}", by="x", note="n" * 2000)
        assert answer.status_code == 507
    assert (await site.post("/v1/tokens", **wanted)).status_code == 507
    assert await site.written() == before
    site.why = ""
    assert (await site.post("/v1/tokens/revoke", id="tok_0001", by="x")).status_code == 200


async def test_what_must_go_on_is_asked_of_those_who_do_it(site: Site) -> None:
    site.why = FULL
    assert (await site.post("/v1/ask", text="stop that")).status_code == 200, "what is talk and what is not knows the gate"
    token = await site.desk.make()
    shown = await site.post("/v1/tokens/look", token=token)
    assert shown.status_code == 200 and shown.json()["verifies"]
