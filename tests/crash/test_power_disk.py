"""The model of a disk with a write cache: what it may forget, and what not."""

from __future__ import annotations

from random import Random

from crash.power_disk import PAGE_BYTES, SECTOR_BYTES, Disk, Event

PAGE = b"n" * PAGE_BYTES
OLD = {"file": b"o" * PAGE_BYTES}


def images(disk: Disk, count: int = 300) -> list[dict[str, bytes]]:
    dice = Random(1)
    return [disk.after_cut(dice) for _ in range(count)]


def test_what_was_synced_is_always_there() -> None:
    disk = Disk(OLD)
    disk.play(Event("write", "file", 0, PAGE))
    disk.play(Event("sync", "file"))
    assert images(disk) == [{"file": PAGE}] * 300


def test_a_write_that_was_not_synced_is_there_or_not_or_torn_at_a_sector() -> None:
    disk = Disk(OLD)
    disk.play(Event("write", "file", 0, PAGE))
    seen = {image["file"] for image in images(disk)}
    assert OLD["file"] in seen
    assert PAGE in seen
    assert len(seen) > 20
    for content in seen:
        sectors = {content[at : at + SECTOR_BYTES] for at in range(0, PAGE_BYTES, SECTOR_BYTES)}
        assert sectors <= {b"o" * SECTOR_BYTES, b"n" * SECTOR_BYTES}


def test_a_later_write_may_reach_the_disk_before_an_earlier_one() -> None:
    disk = Disk({"file": bytes(2 * PAGE_BYTES)})
    disk.play(Event("write", "file", 0, PAGE))
    disk.play(Event("write", "file", PAGE_BYTES, PAGE))
    assert bytes(PAGE_BYTES) + PAGE in [image["file"] for image in images(disk)]


def test_a_truncation_may_have_happened_or_not() -> None:
    disk = Disk(OLD)
    disk.play(Event("truncate", "file", 0))
    assert {image["file"] for image in images(disk)} == {b"", OLD["file"]}


def test_a_file_whose_folder_was_not_synced_may_be_missing_even_if_it_was_synced_itself() -> None:
    disk = Disk(OLD)
    disk.play(Event("create", "log"))
    disk.play(Event("write", "log", 0, PAGE))
    disk.play(Event("sync", "log"))
    assert {frozenset(image) for image in images(disk)} == {frozenset({"file"}), frozenset({"file", "log"})}
    disk.play(Event("sync_folder"))
    assert {image.get("log") for image in images(disk)} == {PAGE}


def test_a_removed_file_may_be_back_with_what_it_had() -> None:
    disk = Disk(OLD)
    disk.play(Event("delete", "file"))
    seen = images(disk)
    assert OLD in seen
    assert {} in seen
    disk.play(Event("create", "file", folder_too=True))
    assert images(disk) == [{"file": b""}] * 300


def test_a_renamed_file_has_one_name_or_the_other() -> None:
    disk = Disk(OLD)
    disk.play(Event("rename", "file", to="other"))
    assert {frozenset(image.items()) for image in images(disk)} == {
        frozenset(OLD.items()),
        frozenset({"other": OLD["file"]}.items()),
    }
