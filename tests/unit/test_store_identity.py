"""Whose ledger it is: a copied card and a restored backup are found, named, and wait for a person; nothing is a false alarm."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from appliance.admission.recovery import take_over
from appliance.contracts.admission import PRIORITY_ALARM, RequestKind
from appliance.contracts.errors import Refused
from appliance.contracts.plan import Step
from appliance.foundation.machine_identity import differing, fingerprint, merged
from appliance.foundation.supervisor import Degraded
from appliance.ledger_standing import LedgerStanding
from appliance.opening import _look_whose
from appliance.store import admissions, effects, identities, owners, stopping, witness
from appliance.store.database import Database
from tests.support.clock import CountingIds, ManualClock
from tests.support.ledger import ORIGIN, Bench, given_admission, given_turn, open_bench, request

PI, OTHER_PI = "board=1111 card=aaaa", "board=2222 card=bbbb"


def machine(folder: Path, *, serial: str = "", cid: str = "", uuid: str = "", mac: str = "", assigned: str = "0") -> str:
    """The fingerprint of a machine whose files say so."""
    sys_root, proc_root = folder / "sys", folder / "proc"
    shutil.rmtree(folder, ignore_errors=True)
    files = {
        proc_root / "device-tree/serial-number": serial and f"{serial}\x00",
        sys_root / "block/mmcblk0/device/cid": cid,
        sys_root / "class/dmi/id/product_uuid": uuid,
        sys_root / "class/net/eth0/address": mac,
        sys_root / "class/net/eth0/addr_assign_type": mac and assigned,
        sys_root / "class/net/docker0/address": "02:42:aa:bb:cc:dd",
    }
    for path, content in files.items():
        if content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    if mac:
        (sys_root / "class/net/eth0/device").mkdir()
    return fingerprint(sys_root=sys_root, proc_root=proc_root)


def test_a_fingerprint_is_of_what_a_copy_does_not_take_along(tmp_path: Path) -> None:
    pi = machine(tmp_path / "m", serial="10000000abcd", cid="0353445344")
    assert [part.partition("=")[0] for part in pi.split()] == ["board", "card"]
    assert pi == machine(tmp_path / "m", serial="10000000abcd", cid="0353445344", uuid="4c4c", mac="dc:a6:32:00:00:01")
    assert differing(pi, machine(tmp_path / "m", serial="10000000abcd", cid="0353449999")) == ["card"]
    assert differing(pi, machine(tmp_path / "m", serial="10000000ffff", cid="0353445344")) == ["board"]
    assert machine(tmp_path / "m", uuid="4C4C-0001").startswith("dmi=")
    assert machine(tmp_path / "m", mac="dc:a6:32:00:00:01").startswith("mac=")
    assert "abcd" not in pi  # a digest tells machines apart and nothing about them


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert machine(tmp_path / "m") == ""
    assert machine(tmp_path / "m", serial="0", uuid="Default string") == ""
    assert machine(tmp_path / "m", mac="02:42:aa:00:00:01", assigned="3") == ""  # made up by a driver or a container
    assert differing(PI, "") == differing("", PI) == differing("", "") == differing(PI, "board=1111") == []
    assert merged("board=1111", PI) == PI


@pytest.mark.field("FC-D04")
def test_a_card_of_a_pi_put_into_another_kind_of_machine_is_a_change(tmp_path: Path) -> None:
    pi = machine(tmp_path / "m", serial="10000000abcd", cid="0353445344")
    pc = machine(tmp_path / "m", mac="dc:a6:32:00:00:01")
    assert differing(pi, pc) == differing(pc, pi) == ["board", "card", "mac"]


@pytest.mark.field("FC-D04")
def test_network_cards_that_come_and_go_make_no_other_machine(tmp_path: Path) -> None:
    one = machine(tmp_path / "m", mac="dc:a6:32:00:00:01")
    added = tmp_path / "m/sys/class/net/eth1"
    (added / "device").mkdir(parents=True)
    (added / "address").write_text("dc:a6:32:00:00:02")
    (added / "addr_assign_type").write_text("0")
    two = fingerprint(sys_root=tmp_path / "m/sys", proc_root=tmp_path / "m/proc")
    assert two != one and differing(one, two) == differing(two, one) == []
    assert differing(two, machine(tmp_path / "m", mac="dc:a6:32:00:00:03")) == ["mac"]
    root = machine(tmp_path / "m", uuid="4C4C-0001", mac="dc:a6:32:00:00:01")  # who is not root cannot read the firmware's word
    assert differing(root, one) == differing(one, root) == []
    assert differing(root, machine(tmp_path / "m", uuid="4C4C-0001", mac="dc:a6:32:00:00:04")) == []  # a new network card
    assert differing(root, machine(tmp_path / "m", uuid="4C4C-0002", mac="dc:a6:32:00:00:01")) == ["dmi"]


async def look(bench: Bench, now: str, witnessed: int = 0) -> None:
    await bench.database.transaction(lambda tx: identities.compare(tx, bench.clock, now, witnessed))


async def audits(bench: Bench) -> list[str]:
    rows = await bench.rows("SELECT kind FROM operation WHERE entity = 'identity' ORDER BY seq")
    return [row["kind"] for row in rows]


@pytest.mark.field("FC-D04")
async def test_a_ledger_on_another_machine_is_named_waits_and_is_adopted_by_a_person(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await look(bench, PI)
        await look(bench, PI)
        await look(bench, "")
        assert await audits(bench) == []
        for _ in range(2):
            await look(bench, OTHER_PI)  # every start finds it, once it is told
        assert await audits(bench) == ["audit.machine_changed"]
        degraded = Degraded()
        standing = LedgerStanding(bench.database, bench.clock, degraded, OTHER_PI)
        await standing.load()
        why = degraded.reasons["identity"]
        assert "board=1111" in why and "board=2222" in why and "floorhand identity adopt --note" in why
        synced = asyncio.Event()

        async def sync() -> None:
            synced.set()

        waiting = asyncio.create_task(standing.when_own(sync))
        await asyncio.sleep(0)
        assert not synced.is_set()  # the other machine's history is not gone on with silently
        done = await standing.adopt("anna", "the board was replaced")
        await waiting
        assert synced.is_set() and len(done["adopted"]) == 1
        assert "identity" not in degraded.reasons
        assert (await audits(bench))[-1] == "audit.identity_adopted"
        await look(bench, OTHER_PI)
        assert await bench.rows(identities.OPEN) == []
        assert (await bench.one("SELECT machine FROM appliance"))["machine"] == OTHER_PI
        with pytest.raises(Refused, match="nothing speaks against"):
            await standing.adopt("anna", "again")


@pytest.mark.field("FC-D04", "FC-D03")
async def test_older_content_put_back_is_found_by_the_witness_and_gives_out_no_epoch_twice(tmp_path: Path) -> None:
    """A backup is restored over the ledger: what the witness beside it knows is newer."""
    async with open_bench(tmp_path) as bench:
        path = bench.database.path
        witness.write(path, bench.epoch)
    shutil.copyfile(path, tmp_path / "backup")
    for _ in range(3):
        async with open_bench(tmp_path) as bench:
            witness.write(path, bench.epoch)
    assert witness.read(path) == 4
    shutil.copyfile(tmp_path / "backup", path)
    async with open_bench(tmp_path) as bench:
        assert bench.epoch == 2  # what the bench took without looking; now as a start does it
    shutil.copyfile(tmp_path / "backup", path)
    database = await Database.open(path, bench.clock)
    await database.transaction(lambda tx: identities.compare(tx, bench.clock, "", witness.read(path)))
    taken = await database.transaction(lambda tx: owners.take_ownership(tx, bench.clock, "core"))
    assert taken.epoch == 5
    (sign,) = await database.fetch(identities.OPEN)
    assert sign["what"] == "ledger_restored" and "epoch 1" in sign["detail"] and "epoch 4" in sign["detail"]
    await database.close()


@pytest.mark.req("R2", "R5")
@pytest.mark.field("FC-D04")
@pytest.mark.parametrize("sign", ["older content", "another machine"])
async def test_a_copy_does_nothing_again_that_it_had_under_way(tmp_path: Path, sign: str) -> None:
    """Here it was begun; in another ledger, or in one that is lost, it went on and may be over."""
    clock, ids = ManualClock(), CountingIds()
    async with open_bench(tmp_path, clock=clock, ids=ids) as bench:
        await look(bench, PI)
        steps = [Step(id=f"report{n}", tool="write_report", arguments={"asset": "motor_3"}) for n in (1, 2)]
        turn = await given_turn(bench, "report", steps)
        begun, rest = (row["id"] for row in await bench.rows("SELECT id FROM action ORDER BY position"))
        await bench.database.transaction(
            lambda tx: (
                effects.intend(tx, clock, action_id=begun, turn_id=turn.id, tool="write_report", arguments={}, epoch=bench.epoch)
                and None
            )
        )
        said = await given_admission(bench, "said")
        alarm = await given_admission(bench, "alarm", kind=RequestKind.ALARM, lane="alarm:motor_3", priority=PRIORITY_ALARM)
        path = bench.database.path
    machine, witnessed = (PI, 7) if sign == "older content" else (OTHER_PI, 0)
    database = await Database.open(path, clock)
    try:
        await database.transaction(lambda tx: _look_whose(tx, clock, ORIGIN, machine, witnessed))
        recovered = await take_over(database, clock, ids, "core", os.getpid())
        assert (recovered.resumed, recovered.suspended) == ([], [])
        assert recovered.unknown_effects == [begun]
        assert {row["id"]: row["state"] for row in await database.fetch("SELECT id, state FROM action")}[rest] == "skipped"
        (row,) = await database.fetch("SELECT state, failure FROM turn")
        assert (row["state"], row["failure"]) == ("failed", stopping.COPIED)
        rows = await database.fetch("SELECT id, status, outcome FROM admission")
        left = {row["id"]: (row["status"], row["outcome"]) for row in rows}
        assert (left[said.id], left[alarm.id]) == (("terminal", "interrupted"), ("queued", None))  # alarms are told, if twice
        (entry,) = await database.fetch("SELECT payload FROM operation WHERE kind = 'audit.copy_stopped'")
        assert turn.id in entry["payload"] and said.id in entry["payload"]
        # What is asked of it from now on is its own, though nobody has adopted it yet.
        asked = request("later")
        await database.transaction(lambda tx: admissions.insert(tx, clock, ids, asked, "digest") and None)
        await database.transaction(lambda tx: _look_whose(tx, clock, ORIGIN, machine, witnessed))
        (row,) = await database.fetch("SELECT status FROM admission WHERE dedupe_key = 'later'")
        assert row["status"] == "queued"
    finally:
        await database.close()


def test_a_witness_that_cannot_be_read_is_no_alarm(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    assert witness.read(database) == 0
    for content in ("", "{", '{"epoch": "x"}', "[]", "null"):
        (tmp_path / "ledger.db.witness").write_text(content)
        assert witness.read(database) == 0
    witness.write(tmp_path / "missing" / "ledger.db", 3)  # a disk that does not take it
