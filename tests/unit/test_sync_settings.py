"""Where the appliance may send its operations, and how it waits and portions them."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from appliance.sync.settings import SyncSettings
from appliance.sync.slices import SliceSize
from appliance.sync.waits import FullJitter

WHOLE = {"device": "line-3", "token": "t"}


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    "url",
    [
        "https://coordinator.site.example",
        "https://10.1.2.3:8470",
        "http://127.0.0.1:8470",
        "http://localhost:8470",
        "http://[::1]:8470",
    ],
)
def test_https_or_this_machine(url: str) -> None:
    assert SyncSettings(coordinator=url, **WHOLE).is_enabled


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://10.1.2.3:8470", "only https leaves this machine; write https$"),
        ("http://localhost.example", "only https"),
        ("http://127.0.0.1.example", "only https"),
        ("https://169.254.169.254/latest", "no address of a service; write the one it has on the site's network$"),
        ("https://0.0.0.0", "no address of a service"),
        ("https://user:secret@coordinator.site", "no user and no fragment; the token has its own key$"),
        ("http://user:secret@coordinator.site", "only https"),
        ("https://coordinator.site#secret", "no user and no fragment"),
        ("https://coordinator.site?token=secret", "no query; end it before the"),
        ("https://coordinator.site:99999", "cannot be read as an address; it looks like https://HOST"),
        ("https://user:sec/ret@coordinator.site", "cannot be read as an address"),
        ("ftp://user:secret@coordinator.site", "must look like https://HOST"),
        ("coordinator.site", "must look like https://HOST"),
        ("https://", "must look like https://HOST"),
    ],
)
def test_anything_else_is_refused_with_its_cure_and_not_quoted(url: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SyncSettings(coordinator=url, **WHOLE)
    why = caught.value.errors(include_input=False)[0]["msg"]
    assert re.search(f"coordinator.*{said}", why, re.MULTILINE) and "sec" not in why


def test_a_coordinator_needs_a_device_and_one_token() -> None:
    for lacking in ({"token": "t"}, {"device": "d"}, {"device": "d", "token": "t", "token_file": "f"}):
        with pytest.raises(ValidationError):
            SyncSettings(coordinator="https://coordinator.site", **lacking)


@pytest.mark.req("X4")
def test_the_token_is_never_shown() -> None:
    assert "secret" not in repr(SyncSettings(coordinator="https://c.site", device="d", token="secret"))


def test_no_coordinator_is_a_whole_setting() -> None:
    assert not SyncSettings().is_enabled


@pytest.mark.req("Y3")
@pytest.mark.field("FC-Y06")
def test_waits_are_spread_over_a_bound_that_doubles() -> None:
    bounds = [1, 2, 4, 8, 16, 32, 60, 60]
    rows = []
    for _ in range(200):
        waits = FullJitter(1.0, 60.0)
        rows.append([waits.next_s() for _ in bounds])
    for bound, column in zip(bounds, zip(*rows, strict=True), strict=True):
        assert 0.05 <= min(column) < bound * 0.2
        assert bound * 0.8 < max(column) <= bound
    waits.reset()
    assert waits.next_s() <= 1.0


@pytest.mark.field("FC-Y07")
def test_slices_shrink_on_a_slow_link_and_grow_again() -> None:
    size = SliceSize(500)
    for _ in range(20):
        size.took(3_000_000_000)
    assert size.operations == 1
    for _ in range(20):
        size.took(10_000_000)
    assert size.operations == 500
    size.limit(7)
    size.took(500_000_000)
    assert size.operations == 7
