"""The coordinator over HTTP. The one place that knows httpx and the coordinator's wire form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.operation import Operation
from appliance.foundation.canonical import canonical_json
from appliance.foundation.outbound import read_token, retry_after_s, tls_context
from appliance.sync.settings import SyncSettings

if TYPE_CHECKING:
    import httpx

_LATER = frozenset({408, 425, 429, 500, 502, 503, 504, 507})  # says nothing about what was sent: send it again


class HttpCoordinator:
    """Implements :class:`appliance.contracts.ports.CoordinatorLink`. Redirects and proxies of the environment are not followed.

    ``transport`` replaces the network in tests.
    """

    def __init__(self, settings: SyncSettings, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._settings = settings
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._token = ""

    async def push(self, operations: Sequence[Operation]) -> Mapping[str, int]:
        """See :meth:`appliance.contracts.ports.CoordinatorLink.push`."""
        first = operations[0]
        batch = {
            "origin": first.origin,
            "lane": str(first.lane),
            "first_seq": first.seq,
            "prev_hash": first.prev_hash,
            "operations": [
                {
                    "kind": op.kind,
                    "entity": op.entity,
                    "payload": op.payload,
                    "at_utc": op.at_utc,
                    "clock_synced": op.clock_synced,
                    "hash": op.hash,
                }
                for op in operations
            ],
        }
        answer = await self._ask("POST", "/v1/operations", content=canonical_json(batch).encode())
        if not all(_is_count(seq) for seq in answer.values()) or str(first.lane) not in answer:
            raise _strange("/v1/operations")
        return answer

    async def heads(self) -> Mapping[str, tuple[int, str]]:
        """See :meth:`appliance.contracts.ports.CoordinatorLink.heads`."""
        answer = await self._ask("GET", "/v1/heads")
        match answer.get("lanes"):
            case dict() as lanes if all(_is_head(head) for head in lanes.values()):
                return {lane: (head["seq"], head["hash"]) for lane, head in lanes.items()}
        raise _strange("/v1/heads")

    async def pull(self, after: int) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """See :meth:`appliance.contracts.ports.CoordinatorLink.pull`."""
        match await self._ask("GET", f"/v1/changes?after={after}"):
            case {"cursor": int(cursor), "changes": list(changes)} if all(_is_change(change) for change in changes):
                return cursor, changes
        raise _strange("/v1/changes")

    async def keys(self) -> Mapping[str, Any]:
        """See :meth:`appliance.contracts.ports.CoordinatorLink.keys`."""
        return await self._ask("GET", "/v1/keys")

    async def close(self) -> None:
        """Close the connections, once nobody uses this any more."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(self, method: str, path: str, content: bytes | None = None) -> dict[str, Any]:
        import httpx

        client = self._open()
        if not self._token:
            self._token = read_token(self._settings.token.get_secret_value(), self._settings.token_file)
        bearer = {"Authorization": f"Bearer {self._token}"}
        try:
            async with asyncio.timeout(self._settings.total_timeout_s):
                response = await client.request(method, path, content=content, headers=bearer)
        except TimeoutError as error:
            raise Unavailable(f"no answer within {self._settings.total_timeout_s:g} s", retry_after_s=0.0) from error
        except httpx.TimeoutException as error:
            raise Unavailable(f"no answer in time ({type(error).__name__})", retry_after_s=0.0) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Unavailable(f"not reached: {error or type(error).__name__}", retry_after_s=0.0) from error
        if response.status_code in (401, 403):
            self._token = ""  # it may have been renewed: read it again next time
        return _answer(response, path)

    def _open(self) -> httpx.AsyncClient:
        """Return the client. Made at the first call: importing httpx and loading certificates takes tens of ms."""
        if self._client is None:
            import httpx

            settings = self._settings
            self._client = httpx.AsyncClient(
                base_url=settings.coordinator,
                headers={"Content-Type": "application/json"},
                timeout=httpx.Timeout(settings.total_timeout_s, connect=settings.connect_timeout_s),
                limits=httpx.Limits(max_connections=4, keepalive_expiry=30.0),
                verify=tls_context(settings.coordinator, settings.ca_file),
                transport=self._transport,
                follow_redirects=False,
                trust_env=False,
            )
        return self._client


def _answer(response: httpx.Response, path: str) -> dict[str, Any]:
    """Return the coordinator's answer, or raise what its status means.

    Anything that is not JSON of the coordinator's own form comes from something in between (a proxy, a captive portal) and
    says nothing about the coordinator.
    """
    try:
        content = json.loads(response.content)
    except (ValueError, RecursionError):
        content = None
    if response.status_code in _LATER:
        why = content.get("message", "") if isinstance(content, dict) else ""
        raise Unavailable(
            f"answered {response.status_code} {why}".rstrip(),
            retry_after_s=retry_after_s(response.headers.get("Retry-After", "")),
        )
    if not isinstance(content, dict):
        raise _strange(path, response.status_code)
    if response.status_code == 200:
        return content
    if "code" not in content or "message" not in content:
        raise _strange(path, response.status_code)
    facts = {str(key): value for key, value in content.items() if key not in ("code", "message")}
    facts.setdefault("reason", content["code"])
    raise Refused(str(content["message"]), **facts | {"status": response.status_code})


def _strange(path: str, status: int = 200) -> Unavailable:
    return Unavailable(f"what answered {path} with {status} is not a coordinator", retry_after_s=0.0)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_head(value: object) -> bool:
    return isinstance(value, dict) and _is_count(value.get("seq")) and isinstance(value.get("hash"), str)


def _is_change(value: object) -> bool:
    return isinstance(value, dict) and _is_count(value.get("position")) and isinstance(value.get("kind"), str)
