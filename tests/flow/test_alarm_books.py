"""From a gateway to the loudspeaker, with a real core and broker: nothing is lost or told twice, and it can be shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demo.site import Site
from drivers.mqtt.session import MqttSession
from drivers.mqtt.settings import MqttSettings
from tests.support.broker import publish_surely, running_session
from tests.support.site import Books, running_site

ACCOUNT = "/v1/alarms/account"
TOLD, QUIET = "guard_3_open", "door_3_open"


def two_alarms_of_the_gateway(config: Path) -> None:
    """Add two alarms that only the gateway can see, so that nothing else has a word on them."""
    path = config / "plant.yaml"
    common = {"asset": "motor_3", "priority": "medium", "fault": "open", "playbook": "overcurrent"}
    added = [
        common | {"id": name, "source_id": name.upper(), "text": {"en": name.replace("_", " "), "zh": name}}
        for name in (TOLD, QUIET)
    ]
    written = path.read_text("utf-8")
    assert written.count("\nalarms:\n") == 1
    lines = "".join(f"  - {json.dumps(alarm, ensure_ascii=False)}\n" for alarm in added)
    path.write_text(written.replace("\nalarms:\n", f"\nalarms:\n{lines}"), "utf-8")


async def tell(session: MqttSession, alarm: str, state: str) -> None:
    told = {"source": "gateway_9", "alarm": alarm.upper(), "activation": "9-1", "state": state, "at": "2026-03-02T08:00:00Z"}
    await publish_surely(session, "plant/line_3/alarms", json.dumps(told).encode())


def of_gateway(account: dict[str, Any]) -> dict[str, Any]:
    found = [counted for counted in account["sources"] if counted["source"] == "gateway_9"]
    return found[0] if found else {"seen": 0, "waiting": 0}


async def seen(site: Site, count: int) -> dict[str, Any]:
    """Return the account once so many events were handed in, and whatever is to be heard was heard."""
    await site.client.until(
        ACCOUNT,
        lambda account: of_gateway(account)["seen"] == count and of_gateway(account)["waiting"] == 0,
        what=f"{count} events seen and told",
        within_s=60,
    )
    account: dict[str, Any] = await site.client.get(ACCOUNT)
    return account


@pytest.mark.req("F7", "R1", "R2")
@pytest.mark.field("FC-F17")
async def test_every_event_is_accounted_for_over_a_kill_and_a_resend(tmp_path: Path) -> None:
    async def ignore(_: object) -> None:
        return

    async with running_site(tmp_path, alone=True, prepare=two_alarms_of_the_gateway) as site:
        settings = MqttSettings(
            port=site.broker.port, username="plc", password=(site.folder / "plc.password").read_text("ascii"),
            client_id="gateway_9", alarm_topics=(), first_retry_s=0.05, longest_retry_s=0.4,
        )  # fmt: skip
        async with running_session(settings, ignore) as session:
            shelved = {"minutes": 5, "reason": "it has to stay open", "by": "anna"}
            await site.client.post(f"/v1/alarms/defined/{QUIET}/shelve", shelved)
            await tell(session, TOLD, "raised")
            await tell(session, QUIET, "raised")
            await site.client.until(ACCOUNT, lambda account: of_gateway(account)["seen"] == 2, what="both seen", within_s=20)
            await site.core.kill()  # whatever it was about to say
            await tell(session, TOLD, "raised")  # a broker that restarted sends again
            await tell(session, QUIET, "raised")
            await tell(session, QUIET, "cleared")
            await site.start_core()
            account = await seen(site, 5)
            assert account["holds"], account["faults"]
            counted = of_gateway(account)
            told = {name: counted[name] for name in ("journalled", "duplicates", "announced", "suppressed", "unheard")}
            assert told == {"journalled": 3, "duplicates": 2, "announced": 1, "suppressed": {"shelved": 2}, "unheard": 0}
            await tell(session, "nobody_knows_it", "raised")
            await site.client.until(
                ACCOUNT, lambda account: account["unreadable"], what="an unknown alarm on record", within_s=20
            )
            account = await site.client.get(ACCOUNT)
            assert not account["holds"] and "NOBODY_KNOWS_IT" in account["faults"][0]
            await site.client.post("/v1/alarms/sources/plant%2Fline_3%2Falarms/accept-missing", {"by": "anna"})
            assert (await site.client.get(ACCOUNT))["holds"]
        assert await site.core.stop() == 0
        books = Books(site.database)
    rows = books.rows("SELECT alarm_id, session_id IS NOT NULL AS is_told FROM alarm WHERE source = 'gateway_9' ORDER BY seq")
    assert [(row["alarm_id"], row["is_told"]) for row in rows] == [(TOLD, 1), (QUIET, 0)]
    assert books.count("SELECT count(*) FROM turn WHERE intent = 'alarm_raised' AND context LIKE '%gateway_9%'") == 1
    assert books.count("SELECT count(*) FROM delivery WHERE text || lead LIKE '%door 3%'") == 0
    books.verified_lanes()
