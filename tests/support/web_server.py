"""A real HTTP server for one test, with or without TLS: it remembers what was posted and answers as the test says."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Posted:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class WebServer:
    """``answer`` returns status and headers (and a body) for the next request; it is called in a thread of the server and may
    wait."""

    port: int = 0
    scheme: str = "http"
    posted: list[Posted] = field(default_factory=list)
    answer: Callable[[Posted], tuple[int, dict[str, str]] | tuple[int, dict[str, str], bytes]] = lambda _: (204, {})

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook?site=1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [each.body for each in self.posted]


@contextmanager
def web_server(*, port: int = 0, certificate: tuple[Path, Path] | None = None) -> Iterator[WebServer]:
    """Serve on 127.0.0.1 until the end, with TLS if there is a certificate and its key."""
    served = WebServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posted = Posted(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            served.posted.append(posted)
            status, headers, *told = served.answer(posted)
            answer = told[0] if told else b""
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(answer))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if answer:
                self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        served.scheme = "https"
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
