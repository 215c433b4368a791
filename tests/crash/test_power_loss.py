"""The power is cut, hundreds of times, at any moment and in the middle of every write; the product opens what is left.

The long run is ``python -m crash``; here is the short one.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crash import power
from crash.power import PowerCuts
from crash.power_disk import Disk
from crash.power_images import Bench, Recorded, Told
from crash.power_peer import Peer
from crash.power_record import LifeOrder
from crash.power_work import DATABASE


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return power.campaign(True, lambda _: None)


@pytest.mark.req("R1", "R2")
def test_nothing_that_was_acknowledged_is_lost_and_nothing_is_damaged(found: dict[str, Any]) -> None:
    assert found["faults"] == []
    assert (found["lost"], found["corrupt"]) == (0, 0)
    assert found["images"] > 200
    assert found["ok"]


def test_what_does_not_sync_is_found_out(found: dict[str, Any]) -> None:
    assert found["proof"]["OFF"]["lost"] + found["proof"]["OFF"]["corrupt"] > 3
    assert found["proof"]["NORMAL"]["lost"] > 3


@pytest.mark.field("FC-D01")
def test_the_products_own_sqlite_survives_on_a_disk_that_forgets_and_fills_up(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    fuse = found["fuse"]
    if not fuse["cycles"]:
        with capsys.disabled():
            sys.stderr.write(f"\nNOT TRIED: the product's own SQLite on a lossy file system: {fuse['why']}\n")
        pytest.skip(fuse["why"])
    assert fuse["faults"] == []
    assert fuse["fell"] > fuse["cycles"] // 2
    assert fuse["full"] > 0
    assert fuse["mended"] > 3
    assert fuse["proof"]["lost"] + fuse["proof"]["corrupt"] > 3


@pytest.mark.field("FC-R13")
def test_an_input_accepted_before_the_first_checkpoint_is_found_after_a_cut(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cuts = PowerCuts(tmp_path, power.QUICK, lambda _: None, stack, 13)
        life = cuts.record(None, steps=6, checkpoint_pages=1_000_000)
        folded = [n for n, event in enumerate(life.events) if event.what == "write" and event.name == DATABASE and event.at]
        accepted = [at for at, what, _ in life.acknowledged if what == "key"]
        assert len(accepted) > 3
        assert accepted[-1] < folded[0]  # the log is folded in when the file is closed, and not before
        for image in life.cuts(Random(13), 40, within=folded[0]):
            cuts.bench.look(image)
        cuts.bench.finish()
        assert (cuts.bench.lost, cuts.bench.corrupt, cuts.bench.faults) == (0, 0, [])


def test_a_recording_tells_everything_that_was_done_to_the_files(tmp_path: Path) -> None:
    folder, out = tmp_path / "life", tmp_path / "recording"
    folder.mkdir()
    order = LifeOrder(str(folder), str(out), "life", 7, 12, checkpoint_pages=20)
    with Peer("crash.power_record") as recorder:
        recorder.ask(order.line())
    recorded = Recorded.read("life", out, Told())
    disk = Disk(recorded.files)
    for event in recorded.events:
        disk.play(event)
    assert set(disk.files) == {DATABASE}
    assert bytes(disk.files[DATABASE].cached) == (folder / DATABASE).read_bytes()
    assert disk.after_cut(Random(1))[DATABASE] == (folder / DATABASE).read_bytes()  # closing left nothing of it unsynced


def test_a_damaged_or_incomplete_image_is_called_so(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cuts = PowerCuts(tmp_path, power.QUICK, lambda _: None, stack, 5)
        life = cuts.record(None, steps=6)
        (whole,) = life.cuts(Random(5), 1, within=0)
        bench = Bench(tmp_path, (stack.enter_context(Peer("crash.power_check")),))
        bench.look(whole)
        bench.finish()
        assert (bench.lost, bench.corrupt) == (0, 0)
        bench.look(type(whole)("another's", whole.files, Told(("never admitted",), {"P1": [1, "no such hash"]})))
        bench.finish()
        assert (bench.lost, bench.corrupt) == (1, 0)
        disk = Disk(life.files)
        for event in life.events:
            disk.play(event)
        spoilt = bytearray(disk.files[DATABASE].cached)
        for page in range(8, len(spoilt) // 4096, 3):
            spoilt[page * 4096 : page * 4096 + 64] = bytes(64)
        bench.look(type(whole)("spoilt", {DATABASE: bytes(spoilt)}, Told()))
        bench.finish()
        assert bench.corrupt == 1
