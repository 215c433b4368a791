"""The running service as the commands see it: HTTP over its Unix socket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from appliance.cli.exit_codes import MAY_BE_TAKEN, NOT_REACHABLE, PROBLEM, TRY_LATER, USAGE
from appliance.foundation.unix_socket import refusal_of

_QUICK_S = 10.0  # every answer but that of `ask` comes from the ledger or one field read
_LOOK = "`floorhand status` and `floorhand turns list` show whether it was; look before you ask for it again."
_TRY_AGAIN_STATUS = frozenset({429, 503, 507})


class CommandFault(Exception):
    """A command that ends with a message, a cure and an exit code."""

    def __init__(self, exit_code: int, code: str, message: str, cure: str = "", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.exit_code, self.code, self.message, self.cure, self.facts = exit_code, code, message, cure, facts or {}


class Service:
    """Asks the local API. Every method raises CommandFault when there is no service or it says no."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def get(self, path: str, **query: Any) -> Any:
        """GET; a query value of None is left out."""
        return self._ask("GET", path, _QUICK_S, "", params=_sendable({k: v for k, v in query.items() if v is not None}))

    def post(self, path: str, body: Mapping[str, Any], *, wait_s: float = 0.0, look: str = _LOOK, token: str = "") -> Any:
        """POST a JSON body; ``wait_s`` is how long the service itself may wait before it answers, ``look`` is what to do when
        nobody knows whether it was taken, ``token`` a session token that says who asks."""
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        return self._ask("POST", path, _QUICK_S + wait_s, look, json=_sendable(body), headers=shown)

    def stream(self, path: str, body: Mapping[str, Any], *, within_s: float) -> Iterator[Any]:
        """POST a JSON body and yield the answer line by line, each within ``within_s``; not to listen any more stops the work."""
        sent = _sendable(body)
        if refusal := refusal_of(self._socket):
            raise self._not_reachable(refusal)
        try:
            transport = httpx.HTTPTransport(uds=str(self._socket))
            with (
                httpx.Client(transport=transport, base_url="http://floorhand", timeout=within_s) as http,
                http.stream("POST", path, json=sent) as answer,
            ):
                if not answer.is_success:
                    answer.read()
                    raise _refusal(answer)
                yield from map(json.loads, answer.iter_lines())
        except httpx.HTTPError as error:
            cure = "See `floorhand status` and the service's journal."
            why = f"the service broke off: {error or type(error).__name__}"
            raise CommandFault(TRY_LATER, "broken_off", why, cure) from error

    def _ask(self, method: str, path: str, timeout_s: float, look: str, **arguments: Any) -> Any:
        if refusal := refusal_of(self._socket):
            raise self._not_reachable(refusal)
        try:
            transport = httpx.HTTPTransport(uds=str(self._socket))
            with httpx.Client(transport=transport, base_url="http://floorhand", timeout=timeout_s) as http:
                answer = http.request(method, path, **arguments)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # nothing was sent
            raise self._not_reachable(error) from error
        except httpx.HTTPError as error:
            if method == "POST":
                raise _may_be_taken(error, timeout_s, look) from error
            if not isinstance(error, httpx.TimeoutException):
                raise self._not_reachable(error) from error
            cure = "See `systemctl status floorhand` and its journal."
            raise CommandFault(TRY_LATER, "timeout", f"the service did not answer within {timeout_s:g} s", cure) from error
        if answer.status_code == 503 and path == "/v1/health":
            return answer.json()  # not ready is an answer here
        if answer.is_success:
            return answer.json()
        raise _refusal(answer)

    def _not_reachable(self, error: Exception) -> CommandFault:
        if isinstance(error, PermissionError):
            cure = "Run it as a member of the group that owns the socket, or with sudo."
            return CommandFault(NOT_REACHABLE, "not_reachable", f"{self._socket} may not be opened", cure)
        cure = "Start it with `systemctl start floorhand` or `floorhand run`; `floorhand doctor` says more."
        return CommandFault(NOT_REACHABLE, "not_reachable", f"no service answers at {self._socket}", cure)


def _sendable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body that can be sent: JSON has no word for ``NaN``, and UTF-8 none for half a character."""
    try:
        json.dumps(dict(body), allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        cure = "Numbers are like 1.5, neither nan nor infinity; words are UTF-8."
        raise CommandFault(USAGE, "usage", "something given here cannot be sent as JSON", cure) from error
    return dict(body)


def _may_be_taken(error: httpx.HTTPError, timeout_s: float, look: str) -> CommandFault:
    """Nobody knows what became of a request: it went out whole or in part, and no answer came back."""
    late = isinstance(error, httpx.TimeoutException)
    how = f"within {timeout_s:g} s" if late else "before the connection broke"
    return CommandFault(MAY_BE_TAKEN, "may_be_taken", f"the service did not answer {how}: it may have been taken, or not", look)


def _refusal(answer: httpx.Response) -> CommandFault:
    exit_code = TRY_LATER if answer.status_code in _TRY_AGAIN_STATUS else PROBLEM
    try:
        told = answer.json()
    except ValueError:
        return CommandFault(exit_code, "http", f"the service answered {answer.status_code}")
    message, cure = told.get("message", answer.reason_phrase), told.get("cure", "")
    return CommandFault(exit_code, told.get("code", "http"), message, cure, told.get("facts"))


def segment(identity: str) -> str:
    """Return an id as one part of an address, whatever is in it. Dots too: an id ``..`` must not climb.

    Raises:
        CommandFault: half a character is in it.
    """
    _sendable({"id": identity})
    return quote(identity, safe="").replace(".", "%2E")
