"""Session tokens on the device: what is taken, what is not and why, and what a clock that may be wrong changes."""

from __future__ import annotations

import hashlib
import hmac
import json
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appliance.access.verifier import IN_DOUBT
from appliance.contracts.errors import ConfigError, Malformed, NotPermitted, Unidentified
from appliance.contracts.operation import OperationLane
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.contracts.session_token import COORDINATOR
from appliance.store import audit
from tests.support.ledger import Bench, open_bench
from tests.support.tokens import Desk, desk_of, header_of, part, strange_key

pytestmark = pytest.mark.req("T3")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as bench:
        yield bench


@pytest.fixture
def desk(bench: Bench, tmp_path: Path) -> Desk:
    return desk_of(bench, tmp_path)


async def refusal(desk: Desk, token: str) -> Unidentified | NotPermitted:
    with pytest.raises((Unidentified, NotPermitted)) as caught:
        await desk.tokens.verify(token)
    assert caught.value.cure, "every refusal says what to do"
    assert not token or token[-20:] not in caught.value.message
    return caught.value


# what is taken --------------------------------------------------------------------------------------------------------
async def test_a_token_made_here_says_who_asks_and_the_site_says_what_they_may(desk: Desk) -> None:
    for role, level in desk.tokens._settings.roles.items():
        found = await desk.tokens.verify(await desk.make("ana", role))
        expected = Principal("ana", Identification.TOKEN, role, AccessLevel.of_word(level), found.principal.token_id)
        assert (found.principal, found.limit, found.issuer) == (expected, "", "device:line-3")
    made = await desk.bench.rows("SELECT entity, payload FROM operation WHERE kind = 'audit.token_made' ORDER BY seq")
    assert [json.loads(each["payload"])["role"] for each in made] == list(desk.tokens._settings.roles)
    assert all(each["entity"].startswith("tok_") for each in made)


async def test_a_token_cannot_name_a_level(desk: Desk) -> None:
    token = desk.sign(role="visitor", level="critical", access="critical", scope="critical", roles=["engineer"])
    assert (await desk.tokens.verify(token)).principal.level is AccessLevel.PUBLIC


async def test_the_key_is_made_at_first_need_for_nobody_else(desk: Desk) -> None:
    assert not desk.key_file.exists()
    await refusal(desk, strange_key(desk.folder).sign(desk.claims()))
    assert not desk.key_file.exists(), "reading a token needs no key of our own"
    await desk.make()
    assert stat.S_IMODE(desk.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.key_file.parent.stat().st_mode) == 0o700
    before = desk.key_file.read_bytes()
    await desk.make()
    assert desk.key_file.read_bytes() == before


# what is not ----------------------------------------------------------------------------------------------------------
async def test_a_token_without_signature_is_not_taken(desk: Desk) -> None:
    kid = header_of(await desk.make())["kid"]
    for alg in ("none", "None", "NONE", ""):
        forged = f"{part({'alg': alg, 'typ': 'JWT', 'kid': kid})}.{part(desk.claims())}."
        assert (await refusal(desk, forged)).facts["reason"] == "algorithm"


async def test_the_public_key_is_no_secret_to_sign_with(desk: Desk) -> None:
    """The old confusion of algorithms: the verifier's public key taken for the secret of an HMAC."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = desk.keys.signing_key().public
    for secret in (
        public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.key.public_bytes(Encoding.Raw, PublicFormat.Raw),
    ):
        signed = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': public.kid})}.{part(desk.claims())}"
        forged = f"{signed}.{part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"
        assert (await refusal(desk, forged)).facts["reason"] == "algorithm"
        relabelled = f"{part({'alg': 'EdDSA', 'kid': public.kid})}.{forged.split('.', 1)[1]}"
        assert (await refusal(desk, relabelled)).facts["reason"] == "signature"


async def test_a_key_of_ours_in_the_header_does_not_make_it_ours(desk: Desk) -> None:
    good, strange = await desk.make(), strange_key(desk.folder)
    body, signature = strange.sign(desk.claims()).split(".")[1:]
    swapped = f"{good.split('.')[0]}.{body}.{signature}"
    assert (await refusal(desk, swapped)).facts["reason"] == "signature"
    embedded = {"alg": "EdDSA", "kid": strange.public.kid, "jwk": strange.public.to_jwk(), "jku": "http://127.0.0.1/keys"}
    assert (await refusal(desk, f"{part(embedded)}.{body}.{signature}")).facts["reason"] == "key"
    for kid in (None, 7, "", ["x"], "../session-tokens.pem"):
        header = {"alg": "EdDSA"} | ({} if kid is None else {"kid": kid})
        assert (await refusal(desk, f"{part(header)}.{body}.{signature}")).facts["reason"] in ("key", "form")


async def test_an_altered_token_is_not_taken(desk: Desk) -> None:
    header, _, signature = (await desk.make(role="visitor")).split(".")
    raised = f"{header}.{part(desk.claims(role='engineer'))}.{signature}"
    assert "altered" in (await refusal(desk, raised)).message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "a.b.c",
        "....",
        "é.é.é",
        "\x00",
        "x" * 5_000,
        "a." * 2_000,
        "null",
        "e30.e30.",
        "[" * 4_000,
        part(b"[1]") + ".e30.",
    ],
)
async def test_what_is_no_token_is_called_none(desk: Desk, text: str) -> None:
    await desk.make()
    assert "session token" in (await refusal(desk, text)).message or text.startswith("e30")


async def test_a_huge_token_is_not_even_parsed(desk: Desk) -> None:
    assert "too long" in (await refusal(desk, desk.sign(padding="x" * 5_000))).message


async def test_a_token_for_another_device_is_not_taken(desk: Desk) -> None:
    for audience in ("line-4", "line-3 ", "LINE-3", "fleet:fleet", "fleet:line-3", ["line-3"], "*"):
        error = await refusal(desk, desk.sign(aud=audience))
        assert error.facts["reason"] in ("audience", "claims")
    assert (await refusal(desk, desk.sign(aud="line-4"))).message == "this token is for line-4, and this is line-3"
    assert isinstance(await refusal(desk, desk.sign(aud="line-4")), NotPermitted)


async def test_a_key_speaks_for_its_own_issuer_only(desk: Desk) -> None:
    for issuer in (COORDINATOR, "device:line-4"):
        assert (await refusal(desk, desk.sign(iss=issuer))).facts["reason"] == "issuer"


@pytest.mark.parametrize("claim", ["sub", "role", "aud", "iss", "iat", "nbf", "exp", "jti"])
async def test_every_claim_is_needed_and_of_its_kind(desk: Desk, claim: str) -> None:
    for wrong in (None, True, -1, 2**62, 1.5, "", " ", "a\nb", "x\u202ey", ["x"], {"x": 1}, "x" * 101):
        error = await refusal(desk, desk.sign(**{claim: wrong}))
        assert error.facts["reason"] == "claims", (claim, wrong)


async def test_a_token_lives_for_a_week_at_most_whoever_signed_it(desk: Desk) -> None:
    iat = desk.claims()["iat"]
    assert (await refusal(desk, desk.sign(exp=iat + 7 * 86_400 + 1))).facts["reason"] == "claims"
    assert (await refusal(desk, desk.sign(exp=iat))).facts["reason"] == "claims"
    assert (await desk.tokens.verify(desk.sign(exp=iat + 7 * 86_400))).principal.by == "ana"


async def test_a_role_that_was_removed_gives_nothing(desk: Desk, bench: Bench) -> None:
    token = await desk.make(role="engineer")
    roles = {"operator": "operator", "engineers": "critical"}
    error = await refusal(desk_of(bench, desk.folder, roles=roles), token)
    assert isinstance(error, NotPermitted)
    assert error.message == "this token is for the role engineer, which this site does not have"
    assert "engineers, operator" in error.cure
    lowered = await desk_of(bench, desk.folder, roles={"operator": "operator", "engineer": "public"}).tokens.verify(token)
    assert lowered.principal.level is AccessLevel.PUBLIC, "the site's word of today counts"


async def test_a_revoked_token_is_not_taken_and_the_log_says_who_did_it(desk: Desk, bench: Bench) -> None:
    token, other = await desk.make(), await desk.make()
    token_id = (await desk.tokens.verify(token)).principal.token_id
    await desk.tokens.revoke(token_id, by="bo", note="lost")
    error = await refusal(desk, token)
    assert error.message == "this token was revoked by bo at 2026-03-02 08:00 UTC"
    assert (await desk.tokens.verify(other)).principal.by == "ana"
    again = await desk.tokens.revoke(token_id, by="cy", note="again")
    assert again["revoked_by"] == "bo"
    (entry,) = await bench.rows("SELECT entity, payload FROM operation WHERE kind = 'audit.token_revoked'")
    assert (entry["entity"], json.loads(entry["payload"])) == (token_id, {"by": "bo", "note": "lost"})
    for nothing in ("", " x", "a\nb", "x" * 65):
        with pytest.raises(Malformed):
            await desk.tokens.revoke(nothing, by="bo", note="")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
async def test_a_key_that_others_can_read_is_trusted_no_more(desk: Desk, mode: int) -> None:
    token = await desk.make()
    desk.key_file.chmod(mode)
    error = await refusal(desk, token)
    assert "cannot be trusted" in error.message and f"chmod 600 {desk.key_file}" in error.cure and "delete it" in error.cure
    with pytest.raises(ConfigError, match="can be read by others"):
        await desk.make()
    desk.key_file.chmod(0o600)
    await desk.tokens.verify(token)
    desk.key_file.unlink()
    renewed = await desk.make()
    assert (await refusal(desk, token)).facts["reason"] == "key"
    await desk.tokens.verify(renewed)


async def test_a_file_that_holds_no_key_is_named_with_its_cure(desk: Desk) -> None:
    token = await desk.make()
    for content in (b"", b"junk", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        desk.key_file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"no Ed25519 private key\. Delete the file"):
            await desk.make()
        assert (await refusal(desk, token)).facts["reason"] == "key_file"


async def test_the_key_is_nowhere_but_in_its_file(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    token = await desk.make()
    await desk.tokens.revoke((await desk.tokens.verify(token)).principal.token_id, by="bo", note="")
    await refusal(desk, token)
    secret = desk.key_file.read_text(encoding="ascii").splitlines()[1]
    told = caplog.text + json.dumps([record.__dict__ for record in caplog.records], default=str) + repr(desk.keys.signing_key())
    stored = json.dumps(await desk.bench.rows("SELECT * FROM operation"))
    for hidden in (secret, token, token.split(".")[2]):
        assert hidden not in told and hidden not in stored


# the clock ------------------------------------------------------------------------------------------------------------
LONG_AGO, LONG_AHEAD = datetime(1970, 1, 1, 0, 3, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def be_at(bench: Bench, when: datetime, *, is_synced: bool) -> None:
    bench.clock.now, bench.clock.is_synced = when, is_synced


async def record(bench: Bench) -> None:
    """Leave a record of now in the ledger."""
    await bench.database.transaction(lambda tx: audit.note(tx, bench.clock, "noted", "test", {}))


async def test_a_token_ends_to_the_second(desk: Desk, bench: Bench) -> None:
    token = await desk.make(hours=1)
    bench.clock.advance(3599)
    await desk.tokens.verify(token)
    bench.clock.advance(1)
    error = await refusal(desk, token)
    assert error.message == "this token ended at 2026-03-02 09:00 UTC; here it is 2026-03-02 09:00 UTC"


async def test_a_clock_that_is_right_takes_no_token_from_the_future(desk: Desk) -> None:
    iat = desk.claims()["iat"]
    for ahead_s, is_taken in ((59, True), (60, True), (61, False)):
        token = desk.sign(iat=iat + ahead_s, nbf=iat, exp=iat + 3600)
        if is_taken:
            await desk.tokens.verify(token)
        else:
            assert (await refusal(desk, token)).facts["reason"] == "made_ahead"
    assert (await refusal(desk, desk.sign(nbf=iat + 61))).facts["reason"] == "not_begun"


async def test_in_1970_a_token_gives_no_more_than_operator_and_says_so(desk: Desk, bench: Bench) -> None:
    engineer, visitor = await desk.make(role="engineer"), await desk.make(role="visitor")
    be_at(bench, LONG_AGO, is_synced=False)
    found = await desk.tokens.verify(engineer)
    assert (found.principal.level, found.principal.role, found.limit) == (AccessLevel.OPERATOR, "engineer", IN_DOUBT)
    low = await desk.tokens.verify(visitor)
    assert (low.principal.level, low.limit) == (AccessLevel.PUBLIC, ""), "what is below that is as ever"
    be_at(bench, datetime(2026, 3, 2, 8, 5, tzinfo=UTC), is_synced=True)
    assert (await desk.tokens.verify(engineer)).principal.level is AccessLevel.CRITICAL


async def test_a_power_cut_does_not_bring_an_ended_token_back(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        token = await desk_of(bench, tmp_path).make(hours=1)
        bench.clock.advance(2 * 3600)
        await record(bench)
    async with open_bench(tmp_path, clock=bench.clock, ids=bench.ids) as again:
        be_at(again, LONG_AGO, is_synced=False)
        error = await refusal(desk_of(again, tmp_path), token)
        assert error.facts["reason"] == "expired" and "doctor" in error.cure, "the ledger has seen a later time"


async def test_a_clock_that_stands_still_in_1970_does_not_keep_a_token_alive(desk: Desk, bench: Bench) -> None:
    """Nothing of the ledger is later than the token: its own making is what time is known to be, and from there it goes on."""
    be_at(bench, LONG_AGO, is_synced=False)
    made = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp())
    token = desk.sign(iat=made, nbf=made, exp=made + 3600)
    await desk.tokens.verify(token)
    bench.clock.mono_ns += 3599 * 10**9
    await desk.tokens.verify(token)
    bench.clock.mono_ns += 10**9
    assert (await refusal(desk, token)).facts["reason"] == "expired"


async def test_in_2200_every_token_has_ended_until_the_clock_is_right(desk: Desk, bench: Bench) -> None:
    token = await desk.make()
    be_at(bench, LONG_AHEAD, is_synced=False)
    error = await refusal(desk, token)
    assert error.facts["reason"] == "expired" and "Nothing sets this appliance's clock" in error.cure
    await record(bench)
    be_at(bench, datetime(2026, 3, 2, 8, 5, tzinfo=UTC), is_synced=False)
    await refusal(desk, token)  # a clock that is set by hand is not known to be right: the later record stands
    be_at(bench, datetime(2026, 3, 2, 8, 5, tzinfo=UTC), is_synced=True)
    assert (await desk.tokens.verify(token)).principal.level is AccessLevel.CRITICAL, "a clock that is right is believed first"


async def test_a_refused_token_does_not_move_time(desk: Desk, bench: Bench) -> None:
    be_at(bench, LONG_AGO, is_synced=False)
    token = await desk.make()
    far = int((LONG_AHEAD + timedelta(days=1)).timestamp())
    for changes in ({"aud": "line-4"}, {"role": "nobody"}):
        await refusal(desk, desk.sign(iat=far, nbf=far, exp=far + 60, **changes))
    await desk.tokens.verify(token)


async def test_the_time_is_told_without_reading_the_whole_log(bench: Bench) -> None:
    plan = await bench.rows(f"EXPLAIN QUERY PLAN {audit._LATEST}")
    assert not [step["detail"] for step in plan if step["detail"].startswith("SCAN operation")]


# making ---------------------------------------------------------------------------------------------------------------
async def test_nobody_is_given_more_than_they_have_or_another_name(desk: Desk, bench: Bench) -> None:
    make = desk.tokens.make
    for user, role, says in (("ana", "engineer", "no more than what is operator"), ("bo", "visitor", "knows you as bo")):
        with pytest.raises(NotPermitted, match=says) as caught:
            await make("ana", role, 8, by="ana", user=user, owns_key=False)
        assert "sudo" in caught.value.cure
    assert (await make("ana", "operator", 8, by="ana", user="ana", owns_key=False))["level"] == "operator"
    bolder = desk_of(bench, desk.folder, console="engineer").tokens
    assert (await bolder.make("ana", "engineer", 8, by="ana", user="ana", owns_key=False))["level"] == "critical"
    (made, _) = await bench.rows("SELECT payload FROM operation WHERE kind = 'audit.token_made' ORDER BY seq")
    assert json.loads(made["payload"]).items() >= {"by": "ana", "user": "ana", "person": "ana", "role": "operator"}.items()


@pytest.mark.parametrize(
    ("person", "role", "hours", "says"),
    [
        ("ana", "engineer", 24.01, "at most 24 hours"),
        ("ana", "engineer", 0, "at least a minute"),
        ("ana", "engineer", -1, "at least a minute"),
        ("ana", "engineer", 0.0001, "at least a minute"),
        ("ana\n", "engineer", 8, "sub: has characters that cannot be shown"),
        (" ", "engineer", 8, "sub: is empty"),
        ("ana ", "engineer", 8, "sub: begins or ends with a space"),
        ("x" * 101, "engineer", 8, "sub: string should have at most 100"),
        ("ana", "enginer", 8, "this site has no role 'enginer'"),
    ],
)
async def test_a_token_that_could_not_be_taken_is_not_made(desk: Desk, person: str, role: str, hours: float, says: str) -> None:
    with pytest.raises((Malformed, NotPermitted), match=says) as caught:
        await desk.tokens.make(person, role, hours, by="root", user="root", owns_key=True)
    if role == "enginer":
        assert caught.value.cure == "Did you mean 'engineer'?"
    assert "audit.token_made" not in await desk.bench.kinds(OperationLane.P1)


async def test_a_token_is_looked_at_without_being_believed(desk: Desk) -> None:
    found = await desk.tokens.look(await desk.make())
    assert (found["verifies"], found["level"], found["says"]["sub"]) == (True, "critical", "ana")
    forged = strange_key(desk.folder).sign(desk.claims(sub="\x1b[2Jroot\u202e", role="x" * 2_000, level="critical"))
    shown = await desk.tokens.look(forged)
    assert (shown["verifies"], shown["level"]) == (False, None) and "not known here" in shown["why"]
    assert shown["says"]["sub"].isprintable() and len(shown["says"]["role"]) <= 100 and "level" not in shown["says"]
    with pytest.raises(Malformed, match="not a session token"):
        await desk.tokens.look("junk")
