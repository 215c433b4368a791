"""A model's server that answers as a test says, badly if need be: real sockets, raw bytes, in a thread of its own."""

from __future__ import annotations

import gzip
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OVERFLOW = (
    '{"error":{"code":400,"message":"request (8031 tokens) exceeds the available context size (4096 tokens), try increasing it",'
    '"type":"exceed_context_size_error","n_prompt_tokens":8031,"n_ctx":4096}}'
)
"""Word for word what llama.cpp's server answered (build of xllamacpp 2026.10)."""


@dataclass(frozen=True)
class Play:
    """What is sent for one request, and whether the connection is then held open until the other side closes it.

    ``for_ever`` is sent again and again after it, until the other side has enough.
    """

    parts: tuple[bytes, ...]
    holds: bool = False
    for_ever: bytes = b""


@dataclass
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class ModelPeer:
    """``plays`` are used up one a request; the last one stays."""

    port: int = 0
    scheme: str = "http"
    plays: list[Play] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    closed_by_client: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1"

    @property
    def keys(self) -> list[str]:
        """The key each request carried."""
        return [each.headers.get("authorization", "").removeprefix("Bearer ") for each in self.asked]

    def next_play(self) -> Play:
        return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]


def head(status: int = 200, kind: str = "text/event-stream", **headers: str) -> bytes:
    """A response's head; the body ends with the connection."""
    lines = [f"HTTP/1.1 {status} So", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def event(content: Mapping[str, Any] | str) -> bytes:
    """One server-sent event."""
    return f"data: {content if isinstance(content, str) else json.dumps(content)}\n\n".encode()


def piece(text: str | None = None, *, ended: str | None = None, **delta: Any) -> bytes:
    """One piece of a streamed reply."""
    said = {"content": text} | delta if text is not None else delta
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said, "finish_reason": ended}]})


def counted(tokens_in: Any, tokens_out: Any, cached: Any = 0) -> bytes:
    """The piece that carries the server's count."""
    details = {"cached_tokens": cached}
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "prompt_tokens_details": details}
    return event({"choices": [], "usage": usage})


def says(text: str, *, ended: str = "stop", usage: bytes = b"") -> Play:
    """A good reply, a letter or so a piece, as llama.cpp streams it."""
    pieces = [piece(None, role="assistant", content=None), *(piece(text[at : at + 4]) for at in range(0, len(text), 4))]
    return Play((head(), *pieces, piece(ended=ended), usage or counted(100, 7, 40), event("[DONE]")))


def status(code: int, body: str = "", **headers: str) -> Play:
    """A status with a body."""
    return Play((head(code, "application/json", **headers), body.encode()))


def calls_tool(*calls: tuple[str, str]) -> Play:
    """Calls of functions, arguments in two pieces each."""
    parts = []
    for index, (name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        first = {"index": index, "id": f"c{index}", "type": "function", "function": {"name": name, "arguments": arguments[:half]}}
        parts.append(piece(tool_calls=[first]))
        parts.append(piece(tool_calls=[{"index": index, "function": {"arguments": arguments[half:]}}]))
    return Play((head(), *parts, piece(ended="tool_calls"), event("[DONE]")))


def bomb() -> Play:
    """A gigabyte of blanks in a megabyte nobody asked to be packed."""
    packed = gzip.compress(b" " * (1 << 20)) * 64
    return Play((head(200, "application/json", Content_Encoding="gzip"), packed))


@contextmanager
def model_peer(plays: Sequence[Play] = (), *, certificate: tuple[Path, Path] | None = None) -> Iterator[ModelPeer]:
    """Serve on 127.0.0.1 until the end, with TLS if there is a certificate and its key."""
    peer = ModelPeer(plays=list(plays))
    is_over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        timeout = 10.0  # of one look at the socket: nobody writes half a request for longer

        def setup(self) -> None:
            if certificate is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*certificate)
                self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.request.close()

        def handle(self) -> None:
            try:
                asked = _read(self)
            except OSError:
                asked = None
            if asked is None:
                peer.closed_by_client.set()
                return
            peer.asked.append(asked)
            play = peer.next_play()
            try:
                for part in play.parts:
                    self.wfile.write(part)
                while play.for_ever and not is_over.is_set():
                    self.wfile.write(play.for_ever)
            except OSError:
                peer.closed_by_client.set()
                return
            while play.holds and not is_over.is_set():
                if _is_closed(self):
                    peer.closed_by_client.set()
                    return

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A handshake that failed is the client's to tell of."""
            peer.closed_by_client.set()

    server = Server(("127.0.0.1", 0), Handler)
    peer.port, peer.scheme = server.server_address[1], "http" if certificate is None else "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield peer
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _read(handler: socketserver.StreamRequestHandler) -> Asked | None:
    first = handler.rfile.readline().split()
    if len(first) < 2 or first[0] != b"POST":  # what was taken for a line may be a handshake
        return None
    headers: dict[str, str] = {}
    while line := handler.rfile.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = handler.rfile.read(int(headers.get("content-length", 0)))
    return Asked(first[1].decode(), headers, json.loads(body or b"{}"))


def _is_closed(handler: socketserver.StreamRequestHandler) -> bool:
    """Whether the other side has closed; waits a little for it."""
    handler.connection.settimeout(0.02)
    try:
        return handler.connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
