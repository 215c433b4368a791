"""Fetching models from a real local server: whole, interrupted, wrong, unsafe."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance.__main__ import main
from appliance.cli.fetching import fetch
from appliance.contracts.errors import Corrupt, FloorhandError, Malformed, Refused, Unavailable

pytestmark = pytest.mark.req("O2")

FILES: dict[str, bytes] = {}
CUT_AFTER: dict[str, int] = {}
RANGES: list[str] = []


class Shelf(BaseHTTPRequestHandler):
    """Serves FILES with ranges; cuts the connection after CUT_AFTER bytes once; ``/to/X`` redirects to X."""

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        if name.startswith("to/"):
            self.send_response(302)
            target = name.removeprefix("to/")
            self.send_header("Location", target if "://" in target else f"/{target}")
            self.end_headers()
            return
        if name not in FILES:
            self.send_error(404)
            return
        content, asked = FILES[name], self.headers.get("Range", "")
        RANGES.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if start >= len(content) and asked:
            self.send_error(416)
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : CUT_AFTER.pop(name, None)])

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def shelf() -> Iterator[str]:
    FILES.clear()
    CUT_AFTER.clear()
    RANGES.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    serving.join()


def get(shelf: str, name: str, folder: Path, *, wanted: bytes | None = None, as_name: str = "") -> Path:
    sha256 = hashlib.sha256(FILES[name] if wanted is None else wanted).hexdigest()
    return fetch(f"{shelf}/{name}", sha256, as_name, folder, lambda *_: None)


def zipped(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_verified_and_put_in_place(shelf: str, tmp_path: Path) -> None:
    FILES["voice.onnx"] = b"v" * 300_000
    told: list[tuple[int, int | None]] = []
    sha256 = hashlib.sha256(FILES["voice.onnx"]).hexdigest()
    place = fetch(f"{shelf}/to/voice.onnx", sha256.upper(), "", tmp_path / "models", lambda *now: told.append(now))
    assert place.read_bytes() == FILES["voice.onnx"]
    assert told[-1] == (300_000, 300_000)
    assert left_in(place.parent) == [".voice.onnx.sha256", "voice.onnx"]
    FILES.clear()
    assert fetch(f"{shelf}/voice.onnx", sha256, "", tmp_path / "models", lambda *_: None) == place  # nothing is asked again
    with pytest.raises(Refused, match="other content"):
        fetch(f"{shelf}/voice.onnx", "0" * 64, "", tmp_path / "models", lambda *_: None)
    (place.parent / ".voice.onnx.sha256").write_bytes(b"\xff" * 64)
    with pytest.raises(Refused, match="other content"):  # nobody knows any more what it is
        fetch(f"{shelf}/voice.onnx", sha256, "", tmp_path / "models", lambda *_: None)


def test_an_interrupted_download_goes_on(shelf: str, tmp_path: Path) -> None:
    FILES["m.bin"] = bytes(range(256)) * 1000
    CUT_AFTER["m.bin"] = 100_000
    with pytest.raises(Unavailable, match="kept"):
        get(shelf, "m.bin", tmp_path)
    have = (tmp_path / ".m.bin.part").stat().st_size
    assert 0 < have <= 100_000
    assert get(shelf, "m.bin", tmp_path).read_bytes() == FILES["m.bin"]
    assert ["", f"bytes={have}-"] == RANGES


def test_a_complete_leftover_needs_no_download(shelf: str, tmp_path: Path) -> None:
    FILES["m.bin"] = b"12345"
    (tmp_path / ".m.bin.part").write_bytes(b"12345")
    assert get(shelf, "m.bin", tmp_path).read_bytes() == b"12345"


def test_wrong_content_is_thrown_away(shelf: str, tmp_path: Path) -> None:
    FILES["m.bin"] = b"not what was promised"
    with pytest.raises(Corrupt, match="thrown away"):
        get(shelf, "m.bin", tmp_path, wanted=b"what was promised")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    "archive",
    [
        zipped({"small-0.1/am/final.mdl": b"am", "small-0.1/conf": b"c"}),
        tarred((tarfile.TarInfo("small-0.1/am/final.mdl"), b"am"), (tarfile.TarInfo("small-0.1/conf"), b"c")),
    ],
    ids=["zip", "tar"],
)
def test_an_archive_is_unpacked_without_its_outer_folder(shelf: str, tmp_path: Path, archive: bytes) -> None:
    FILES["vosk-zh.zip"] = archive
    place = get(shelf, "vosk-zh.zip", tmp_path)
    assert place == tmp_path / "vosk-zh"
    assert (place / "am/final.mdl").read_bytes() == b"am"
    assert left_in(tmp_path) == [".vosk-zh.sha256", "vosk-zh"]


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize(
    "archive",
    [
        zipped({"../evil": b"x"}),
        zipped({"/abs/evil": b"x"}),
        zipped({"a\\..\\..\\evil": b"x"}),
        tarred((tarfile.TarInfo("../../evil"), b"x")),
        tarred((_link("inner", "/etc"), b""), (tarfile.TarInfo("inner/evil"), b"x")),
    ],
    ids=["dots", "absolute", "backslashes", "tar dots", "link"],
)
def test_an_archive_that_leaves_its_folder_is_refused_and_nothing_stays(shelf: str, tmp_path: Path, archive: bytes) -> None:
    FILES["m.zip"] = archive
    with pytest.raises(Refused):
        get(shelf, "m.zip", tmp_path / "models")
    assert left_in(tmp_path / "models") == []
    assert not list(tmp_path.rglob("evil"))


def test_a_damaged_archive_is_said_to_be_one(shelf: str, tmp_path: Path) -> None:
    content = bytearray(zipped({"a/b": b"x" * 5000}))
    content[60] ^= 0xFF
    FILES["m.zip"] = bytes(content)
    with pytest.raises(Corrupt, match="cannot be read"):
        get(shelf, "m.zip", tmp_path)
    assert left_in(tmp_path) == []


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    ("url", "sha256", "name", "error"),
    [
        ("http://models.example/m.bin", "0" * 64, "", Refused),
        ("ftp://127.0.0.1/m.bin", "0" * 64, "", Refused),
        ("https://127.0.0.1:1/m.bin", "0" * 64, "", Unavailable),
        ("https://127.0.0.1:1/m.bin", "abc", "", Malformed),
        ("https://127.0.0.1:1/m.bin", "0" * 64, "../up", Malformed),
        ("https://127.0.0.1:1/", "0" * 64, "", Malformed),
    ],
)
def test_what_is_not_asked_for(tmp_path: Path, url: str, sha256: str, name: str, error: type[FloorhandError]) -> None:
    with pytest.raises(error):
        fetch(url, sha256, name, tmp_path, lambda *_: None)
    assert left_in(tmp_path) == []


@pytest.mark.req("X6")
def test_a_redirect_to_plain_http_elsewhere_is_refused(shelf: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="https only"):
        fetch(f"{shelf}/to/http://models.example/m", "0" * 64, "", tmp_path, lambda *_: None)
    with pytest.raises(Unavailable, match="404"):
        fetch(f"{shelf}/absent", "0" * 64, "", tmp_path, lambda *_: None)


def test_the_command_fetches_and_lists(
    shelf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLOORHAND_CONFIG", str(Path(__file__).parents[2] / "config"))
    monkeypatch.setenv("FLOORHAND_DATA", str(tmp_path))
    FILES["m.bin"] = b"12345"
    sha256 = hashlib.sha256(b"12345").hexdigest()
    assert main(["models", "fetch", f"{shelf}/m.bin", "--sha256", sha256, "--name", "vosk-zh", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(tmp_path / "models/vosk-zh")
    assert main(["models", "list", "--json"]) == 0
    assert [(each["name"], each["present"], each["bytes"]) for each in json.loads(capsys.readouterr().out)] == [
        ("vosk-zh", True, 5)
    ]
    assert main(["models", "fetch", f"{shelf}/m.bin", "--sha256", "0" * 64, "--name", "x"]) == 1
    assert main(["models", "fetch", f"{shelf}/gone", "--sha256", sha256]) == 75
