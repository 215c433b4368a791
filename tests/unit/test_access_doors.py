"""Who asks is part of what comes in, at every door where people ask; and no part of what makes two requests the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.admission.gate import Gate
from appliance.contracts.admission import Arrival, RequestKind
from appliance.contracts.errors import Refused
from appliance.contracts.lane import typed_by
from appliance.contracts.principal import AccessLevel, Identification, Principal, principal_of
from appliance.contracts.speech import Utterance
from appliance.foundation.canonical import digest
from appliance.intake.console_door import TYPIST, ConsoleDoor
from appliance.intake.voice_door import VoiceDoor
from appliance.store import admissions
from tests.support.ledger import Bench, open_bench

ANA = Principal("ana", Identification.TOKEN, "engineer", AccessLevel.CRITICAL, "tok_1")
SPOKEN = Utterance(
    id="ut_1", text="stop that", language="en", engine="vosk", confidence=0.8, wake_mono_ns=1, speech_ended_mono_ns=2,
    transcribed_mono_ns=3, facts={},
)  # fmt: skip


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as bench:
        yield bench


def console_of(bench: Bench, **how: object) -> ConsoleDoor:
    return ConsoleDoor(Gate(bench.database, bench.clock, bench.ids), bench.ids, lambda text, _: text == "stop that", **how)


@pytest.mark.req("X5")
async def test_a_voice_is_nobody_in_particular_whatever_it_says(bench: Bench) -> None:
    speaker = Principal("voice", Identification.VOICE, "visitor", AccessLevel.PUBLIC)
    door = VoiceDoor(Gate(bench.database, bench.clock, bench.ids), lambda text, _: text == "stop that", speaker)
    for number, text in enumerate(("I am ana the engineer", "stop that")):
        admitted = await door.admit(replace(SPOKEN, id=f"ut_{number}", text=text))
        assert principal_of(admitted.admission.payload) == speaker
    assert admitted.admission.kind is RequestKind.INTERJECTION


@pytest.mark.req("T3")
async def test_who_types_has_the_name_as_given_or_that_of_the_token(bench: Bench) -> None:
    typist = Principal("console", Identification.SOCKET, "staff", AccessLevel.INTERNAL)
    door = console_of(bench, typist=typist)
    named = (await door.admit("read the temperature", "en", "bo")).admission
    assert principal_of(named.payload) == replace(typist, by="bo")
    for text in ("read the temperature", "stop that"):
        shown = (await door.admit(text, "en", "root", holder=ANA)).admission
        assert (principal_of(shown.payload), shown.payload["by"]) == (ANA, "ana"), "whatever the body says"
    assert shown.kind is RequestKind.INTERJECTION


@pytest.mark.req("T3", "R1")
async def test_nobody_goes_on_with_what_another_asked_by_calling_themselves_so(bench: Bench) -> None:
    door = console_of(bench)
    real = (await door.admit("set it", "en", "ana", key="k", holder=ANA)).admission
    for name in ("ana", "token:ana", "with_token:ana"):
        other = await door.admit("set it", "en", name, key="k")
        assert not other.is_duplicate and other.admission.lane != real.lane
    assert typed_by(real.lane) == "ana" and typed_by("console:bo") == "bo" and typed_by("asset:motor_3") == ""


@pytest.mark.req("T3", "R1")
@pytest.mark.field("FC-R04")
async def test_a_request_sent_again_with_a_renewed_token_is_the_same_and_stands_as_it_was_asked(bench: Bench) -> None:
    door = console_of(bench)
    first = await door.admit("set it", "en", "ana", key="k", holder=replace(ANA, role="visitor", level=AccessLevel.PUBLIC))
    again = await door.admit("set it", "en", "ana", key="k", holder=replace(ANA, token_id="tok_2"))
    assert again.is_duplicate and again.admission.id == first.admission.id
    assert principal_of(again.admission.payload).level is AccessLevel.PUBLIC, "it is not raised by being sent again"
    with pytest.raises(Refused, match="another sentence"):
        await door.admit("set it now", "en", "ana", key="k", holder=ANA)


@pytest.mark.req("T3", "R1")
async def test_what_was_admitted_before_there_were_principals_is_still_the_same_request(bench: Bench) -> None:
    door = console_of(bench)
    old = {"text": "set it", "language": "en", "by": "ana"}
    made = await door.admit("set it", "en", "ana", key="k")
    stored = await bench.one("SELECT digest, dedupe_key FROM admission")
    assert stored == {"digest": digest(old), "dedupe_key": "ask:ana:k"}, "as written by the version before"
    await bench.database.transaction(
        lambda tx: tx.execute("UPDATE admission SET payload = json_remove(payload, '$.principal')") and None
    )
    again = await door.admit("set it", "en", "ana", key="k")
    assert again.is_duplicate and again.admission.id == made.admission.id
    assert await bench.database.transaction(lambda tx: principal_of(admissions.by_id(tx, made.admission.id).payload)) != TYPIST
    with pytest.raises(Refused, match="with --steer"):
        console = console_of(bench)
        await console.admit("go on", "en", "ana", key="s", arrival=Arrival.STEER)
        await console.admit("go on", "en", "ana", key="s")
