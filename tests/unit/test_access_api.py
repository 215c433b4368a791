"""Session tokens through the local API and the command line: over the real socket, on a real ledger."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from appliance.cli import exit_codes
from appliance.console.acts import Acts
from appliance.console.api import LocalApi
from appliance.contracts.principal import AccessLevel, Identification
from tests.support.command_line import Run, command_line
from tests.support.core import StandInCore
from tests.support.ledger import Bench, open_bench
from tests.support.tokens import Desk, desk_of, strange_key

pytestmark = pytest.mark.req("T3")

ASK = {"text": "what is the temperature", "by": "mallory"}


class Site:
    """A served appliance that takes tokens."""

    def __init__(self, bench: Bench, desk: Desk, http: httpx.AsyncClient, core: StandInCore) -> None:
        self.bench, self.desk, self.http, self.core = bench, desk, http, core

    async def ask(self, *shown: str) -> httpx.Response:
        return await self.http.post("/v1/ask", json=ASK, headers=[("Authorization", each) for each in shown])


@contextlib.asynccontextmanager
async def serving(folder: Path, *, takes_tokens: bool = True) -> AsyncIterator[Site]:
    async with open_bench(folder) as bench:
        desk, core, path = desk_of(bench, folder), StandInCore(), folder / "run" / "api.sock"
        acts = desk.tokens if takes_tokens else None
        api = LocalApi(core, bench.database, dict, path=path, language="en", acts=Acts(tokens=acts))
        running = asyncio.create_task(api.run())
        try:
            async with asyncio.timeout(10):
                await api.serving.wait()
            transport = httpx.AsyncHTTPTransport(uds=str(path))
            async with httpx.AsyncClient(transport=transport, base_url="http://floorhand") as http:
                yield Site(bench, desk, http, core)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path) as site:
        yield site


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.delenv("FLOORHAND_TOKEN", raising=False)
    return command_line(monkeypatch, tmp_path, capsys)


# asking with a token --------------------------------------------------------------------------------------------------
async def test_with_a_token_it_is_that_person_who_asks_whatever_the_body_says(site: Site) -> None:
    assert (await site.ask()).status_code == 200
    assert site.core.asked_by == [("mallory", None)], "without a token it is the socket's, as ever"
    for scheme in ("Bearer", "bearer"):
        answer = await site.ask(f"{scheme} {await site.desk.make('ana', 'engineer')}")
        assert answer.status_code == 200 and "limit" not in answer.json()
        by, holder = site.core.asked_by[-1]
        assert holder is not None and (by, holder.by, holder.identified) == ("ana", "ana", Identification.TOKEN)
        assert holder.level is AccessLevel.CRITICAL


async def test_a_bad_token_is_never_taken_for_none(site: Site) -> None:
    good = await site.desk.make()
    strange = strange_key(site.desk.folder).sign(site.desk.claims())
    wanted = [
        (["Bearer " + strange], 401),
        (["Bearer x"], 401),
        (["Bearer"], 401),
        (["Basic YW5hOng="], 401),
        ([""], 401),
        ([good], 401),
        (["Bearer " + good, "Bearer " + good], 401),
        (["Bearer " + "x" * 20_000], 401),
        (["Bearer " + site.desk.sign(aud="line-4")], 403),
        (["Bearer " + site.desk.sign(role="boss")], 403),
        (["Bearer " + site.desk.sign(exp=site.desk.claims()["iat"] + 1, iat=site.desk.claims()["iat"] - 9)], 200),
    ]
    for shown, status in wanted:
        before = len(site.core.asked_by)
        answer = await site.ask(*shown)
        assert answer.status_code == status, (shown, answer.text)
        if status == 200:
            continue
        told = answer.json()
        assert told["code"] == {401: "unidentified", 403: "not_permitted"}[status]
        assert told["message"] and told["cure"] and ("WWW-Authenticate" in answer.headers) == (status == 401)
        assert len(site.core.asked_by) == before, "nothing was asked"


async def test_a_level_that_the_clock_limits_is_said(site: Site) -> None:
    token = await site.desk.make()
    site.bench.clock.is_synced = False
    answer = (await site.ask(f"Bearer {token}")).json()
    assert "no more than operator" in answer["limit"]


async def test_where_no_tokens_are_taken_one_that_is_shown_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, takes_tokens=False) as site:
        assert (await site.ask("Bearer x")).status_code == 401
        assert (await site.ask()).status_code == 200
        assert (await site.http.post("/v1/tokens/look", json={"token": "x"})).status_code == 404


# the command line -----------------------------------------------------------------------------------------------------
async def test_a_token_is_made_shown_used_and_revoked(site: Site, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "ana.token"
    code, out, err = await run("token", "make", "ana", "--role", "engineer", "--hours", "2", "--out", str(file))
    assert (code, out) == (exit_codes.OK, "") and "ana is engineer (critical) at line-3 until 2026-03-02T10:00" in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    code, out, _ = await run("token", "show", str(file))
    assert code == exit_codes.OK and out.startswith("taken here, and gives critical\n") and "role: engineer" in out
    assert (await run("ask", "what is it", "--token-file", str(file)))[0] == exit_codes.OK
    assert site.core.asked_by[-1][0] == "ana"
    monkeypatch.setenv("FLOORHAND_TOKEN", file.read_text(encoding="ascii"))
    assert (await run("ask", "what is it"))[0] == exit_codes.OK
    assert site.core.asked_by[-1][0] == "ana"
    code, out, _ = await run("token", "show", str(file), "--json")
    token_id = json.loads(out)["says"]["jti"]
    code, out, _ = await run("token", "revoke", token_id, "--note", "lost it")
    assert code == exit_codes.OK and f"{token_id} is not taken here any more (revoked by {getpass.getuser()}" in out
    code, out, _ = await run("token", "show", str(file))
    assert code == exit_codes.PROBLEM and out.startswith("NOT taken here: this token was revoked by")
    code, out, err = await run("ask", "what is it")
    assert code == exit_codes.PROBLEM and out == "" and "was revoked" in err and "floorhand token make" in err
    monkeypatch.delenv("FLOORHAND_TOKEN")
    assert (await run("ask", "what is it"))[0] == exit_codes.OK, "without a token it is the socket's"
    code, out, _ = await run("audit", "list", "--json")
    assert {"audit.token_made", "audit.token_revoked"} <= {each["kind"] for each in json.loads(out)}


async def test_a_token_without_a_file_is_the_answer_itself(site: Site, run: Run) -> None:
    code, out, _ = await run("token", "make", "ana", "--role", "visitor")
    assert code == exit_codes.OK and (await site.desk.tokens.verify(out.strip())).principal.level is AccessLevel.PUBLIC
    code, out, _ = await run("token", "make", "ana", "--role", "visitor", "--json")
    assert code == exit_codes.OK and (await site.desk.tokens.verify(json.loads(out)["token"])).principal.by == "ana"


async def test_what_cannot_be_made_is_refused_with_its_cure(site: Site, run: Run, tmp_path: Path) -> None:
    for arguments, says in (
        (["--role", "enginer"], "Did you mean 'engineer'?"),
        (["--role", "engineer", "--hours", "25"], "at most 24 hours"),
        (["--role", "engineer", "--hours", "nan"], "at least a minute"),
        (["--role", "engineer", "--hours", "-1"], "at least a minute"),
        (["--role", "engineer", "--hours", "0.0001"], "at least a minute"),
        (["--role", "visitor", "--out", str(tmp_path / "missing" / "x")], "Choose another --out"),
    ):
        code, out, err = await run("token", "make", "ana", *arguments)
        assert code in (exit_codes.PROBLEM, exit_codes.USAGE) and out == "" and says in err
    code, out, err = await run("token", "make", "", "--role", "engineer")
    assert (code, out) == (exit_codes.USAGE, "") and "PERSON is no name" in err


async def test_an_id_that_is_none_is_not_revoked_and_one_nobody_made_here_is_said_to_be_so(site: Site, run: Run) -> None:
    """A mistyped id must not look like a token that was ended."""
    for nothing in ("tok_nope", "nope", "tok_", "tok_0001 "):
        code, out, err = await run("token", "revoke", nothing)
        assert (code, out) == (exit_codes.PROBLEM, "") and "that is no token's id" in err and "token show" in err
    assert await site.bench.rows("SELECT * FROM revoked_token") == []
    code, out, _ = await run("token", "revoke", "tok_ffff")
    assert code == exit_codes.OK and "no token of this id was made here" in out
    token = await site.desk.make()
    code, out, _ = await run("token", "revoke", (await site.desk.tokens.verify(token)).principal.token_id)
    assert code == exit_codes.OK and "is not taken here any more" in out and "was made here" not in out


async def test_a_file_that_is_no_tokens_or_not_private_is_named(site: Site, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "t"
    for content, mode, says in (
        (None, 0, "cannot be read: No such file"),
        (b"", 0o600, "holds no session token"),
        (b"\x00\xff", 0o600, "holds no session token"),
        (b"two words", 0o600, "holds no session token"),
        (b"x" * 100_000, 0o600, "holds no session token"),
        (b"x" * 5_000, 0o600, "too long to be a session token"),
        (b"a.b.c", 0o600, "not a session token"),
        (b"a.b.c", 0o644, f"chmod 600 {file}"),
    ):
        if content is not None:
            file.write_bytes(content)
            file.chmod(mode)
        for arguments in (["token", "show", str(file)], ["ask", "what", "--token-file", str(file)]):
            code, out, err = await run(*arguments)
            assert code in (exit_codes.PROBLEM, exit_codes.USAGE) and says in err and out == "", (arguments, err)
        if content and mode == 0o600 and b"\0" not in content:
            monkeypatch.setenv("FLOORHAND_TOKEN", content.decode("ascii"))
            code, out, err = await run("ask", "what")
            assert (code, out) == (exit_codes.PROBLEM, "") and says.removeprefix("holds ") in err
            monkeypatch.delenv("FLOORHAND_TOKEN")
    assert site.core.asked_by == []


_AS_ANOTHER = """
import json, os, socket, sys
os.setgid(65534); os.setuid(65534)
for person, role in (("nobody", "operator"), ("nobody", "engineer"), ("root", "visitor")):
    body = json.dumps({"person": person, "role": role, "hours": 1, "by": "root"})
    asked = "POST /v1/tokens HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(sys.argv[1])
        end.sendall(f"{asked}Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
        head, _, answer = b"".join(iter(lambda: end.recv(65536), b"")).partition(b"\\r\\n\\r\\n")
    print(json.dumps([int(head.split()[1]), json.loads(answer)]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_who_could_not_read_the_key_is_given_no_more_than_they_have(tmp_path: Path) -> None:
    """The kernel says who is at the other end; what the body says of it counts for nothing."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are root's alone
        folder = Path(name)
        async with serving(folder) as site:
            for path, mode in ((folder, 0o755), (folder / "run", 0o755), (folder / "run" / "api.sock", 0o666)):
                await asyncio.to_thread(path.chmod, mode)
            assert (await site.http.post("/v1/tokens", json=_wanted("engineer"))).status_code == 200, "root may"
            command = [sys.executable, "-c", _AS_ANOTHER, str(folder / "run" / "api.sock")]
            told = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True, text=True)
            (given, made), *refused = map(json.loads, told.stdout.splitlines())
            assert (given, made["role"]) == (200, "operator")
            assert [(status, answer["code"]) for status, answer in refused] == [(403, "not_permitted")] * 2
            assert "no more than what is operator" in refused[0][1]["message"] and "sudo" in refused[0][1]["cure"]
            assert refused[1][1]["message"].endswith("this machine knows you as nobody")


def _wanted(role: str) -> dict[str, Any]:
    return {"person": "ana", "role": role, "hours": 1, "by": "root"}
