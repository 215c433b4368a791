"""One model at one address: one try of a request over HTTP. The one place of the models that knows httpx."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from appliance.contracts.clock import Clock
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.model import ModelReply, ModelRequest, Usage
from appliance.foundation.outbound import addresses_of, read_token, retry_after_s, tls_context
from drivers.models.body import body_of
from drivers.models.failures import CallFailed, Trouble, classify
from drivers.models.handshake import Handshake
from drivers.models.refusal import prompt_tokens_of, window_of
from drivers.models.reply import Incoming, JunkReply, ServerFailed
from drivers.models.settings import ModelSettings, is_usable_key
from drivers.models.sse import EventLines, LineTooLong, at_most
from drivers.models.tokens import TokenCounter

if TYPE_CHECKING:
    import httpx

MOST_NOTHING_BYTES = 64 * 1024
"""So much without one letter of an answer is no answer: blanks a grammar allows, comments, empty events."""
MOST_REPLY_BYTES = 8 * 1024 * 1024
"""On the wire; some hundred bytes carry one token."""
_MOST_WHOLE_BYTES = 1024 * 1024  # of an answer that is not streamed
_BYTES_PER_TOKEN = 16  # of text; the longest entries of vocabularies that are no blanks
_SPARE_PIECES = 16  # beyond most_tokens: first and last pieces carry no token
_ERROR_BODY_BYTES, _ERROR_BODY_S = 8 * 1024, 2.0  # enough to see what a failure is about
_PORTS = {"http": 80, "https": 443}
_DONE = b"[DONE]"


class ChatModel:
    """Asks one model. Keys are handed in by the caller, who knows which of them are good."""

    def __init__(self, settings: ModelSettings, clock: Clock) -> None:
        self.settings = settings
        self.counter = TokenCounter()
        self.other_words = False
        self._clock = clock
        self._client: httpx.AsyncClient | None = None

    def call(self, request: ModelRequest) -> Call:
        """Return one try of a request, not yet begun."""
        return Call(self, request, self._clock)

    async def key(self, index: int) -> str:
        """Return a key; empty when none is configured.

        Raises:
            Refused: its file cannot be read or is open to others, or what it holds is no key.
        """
        keys, files = self.settings.keys, self.settings.key_files
        if not keys and not files:
            return ""
        if index < len(keys):
            return keys[index].get_secret_value()
        file = files[index - len(keys)]
        key = await asyncio.to_thread(read_token, "", file)
        if not is_usable_key(key):
            raise Refused(f"{file} does not hold a key: it has to be one line of printable ASCII", reason="key_file")
        return key

    @property
    def keys(self) -> int:
        """How many keys there are to try; one when none is needed."""
        return max(1, len(self.settings.keys) + len(self.settings.key_files))

    async def client(self) -> httpx.AsyncClient:
        """Return the client. Made at the first call: importing httpx and loading certificates takes tens of ms."""
        if self._client is None:
            import httpx

            verify = await asyncio.to_thread(tls_context, self.settings.url, self.settings.ca_file)
            self._client = httpx.AsyncClient(
                headers={"Content-Type": "application/json", "User-Agent": "floorhand", "Accept-Encoding": "identity"},
                timeout=httpx.Timeout(None, connect=self.settings.connect_s),  # the rest is bounded as a whole
                # A connection that is kept is one the server may just be closing; a new one costs next to nothing here.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                verify=verify,
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    def unlearn(self) -> None:
        """Forget how it counts and what it calls things: what was learnt may have been wrong."""
        self.counter, self.other_words = TokenCounter(), False

    async def close(self) -> None:
        """Close the connections, once nobody asks any more."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


class Call:
    """One try. :meth:`usage` tells what it took so far, also when it failed or was cancelled."""

    def __init__(self, model: ChatModel, request: ModelRequest, clock: Clock) -> None:
        self._model = model
        self._request = request
        self._clock = clock
        self._began_ns = clock.monotonic_ns()
        settings = model.settings
        self._most_tokens = min(request.most_tokens, settings.most_reply_tokens)
        self._came = Incoming(tool=request.schema_name if request.schema is not None and settings.output == "tools" else "")
        self._is_read = False  # the server may have read the request, and count it
        self._was_ended = False
        self.began_utc = clock.utc()

    async def run(self, key_index: int, limit_s: float) -> ModelReply:
        """Ask, and return the reply. Cancelling closes the connection at once.

        Raises:
            CallFailed: it says how, and carries what had come of a reply.
        """
        try:
            async with asyncio.timeout(limit_s):
                await self._ask(await self._model.key(key_index))
        except TimeoutError:
            raise self._failed(Trouble.TIMEOUT, f"no answer within {limit_s:.3g} s") from None
        except Refused as error:
            raise self._failed(Trouble.UNUSABLE, error.message) from error
        except Unavailable as error:
            raise self._failed(Trouble.UNKNOWN_HOST) from error
        except (JunkReply, LineTooLong) as error:
            raise self._failed(Trouble.JUNK if isinstance(error, JunkReply) else Trouble.TOO_MUCH) from error
        except ServerFailed as error:
            raise self._refused(error.status, error.body) from error
        if (trouble := self._came.trouble()) is not None:
            raise self._failed(trouble)
        return self._reply()

    def usage(self) -> Usage:
        """Return what the call took so far: as the server counted, else estimated."""
        settings, counter, counted = self._model.settings, self._model.counter, self._came.tokens
        if counted is None:
            tokens_in = counter.request(self._request, settings.output) if self._is_read else 0
            tokens_out, cached = counter.count(self._came.content), 0
        else:
            tokens_in, tokens_out, cached = counted
        price = settings.price
        return Usage(
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            tokens_cached=cached,
            is_estimated=counted is None and self._is_read,
            duration_ms=(self._clock.monotonic_ns() - self._began_ns) / 1e6,
            cost=None if price is None else price.cost(tokens_in, tokens_out, cached),
            currency="" if price is None else price.currency,
        )

    async def _ask(self, key: str) -> None:
        import httpx

        settings, parts = self._model.settings, urlsplit(self._model.settings.url)
        addresses = await addresses_of(
            settings.host,
            parts.port or _PORTS[parts.scheme],
            allowed=[str(each) for each in settings.allow_addresses],
            is_plain=settings.must_be_loopback,
        )
        client = await self._model.client()
        headers = {"Host": parts.netloc} | ({"Authorization": f"Bearer {key}"} if key else {})
        words = body_of(settings, self._request, self._most_tokens, other_words=self._model.other_words)
        body = json.dumps(words, ensure_ascii=False).encode("utf-8", "replace")
        try:
            for address in addresses:
                with contextlib.suppress(*(() if address == addresses[-1] else (httpx.ConnectError, httpx.ConnectTimeout))):
                    return await self._post(client, address, headers, body)
        except httpx.ConnectTimeout as error:
            raise self._failed(Trouble.NOT_REACHED) from error
        except httpx.ConnectError as error:
            raise self._failed(Trouble.NOT_TRUSTED if _is_tls(error) else Trouble.NOT_REACHED) from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise self._failed(Trouble.UNUSABLE) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._failed(Trouble.CUT) from error
        raise self._failed(Trouble.UNKNOWN_HOST)

    async def _post(self, client: httpx.AsyncClient, address: str, headers: Mapping[str, str], body: bytes) -> None:
        """Post to an address that was checked; the certificate is still the host's."""
        import httpx

        url = httpx.URL(self._model.settings.url.rstrip("/") + "/chat/completions").copy_with(host=address)
        named = {"sni_hostname": self._model.settings.host, "trace": Handshake()}
        self._is_read = True
        async with client.stream("POST", url, content=body, headers=headers, extensions=named) as answer:
            parts = answer.aiter_raw()
            if answer.status_code != 200:
                said = await _said(parts)
                headers_told = answer.headers
                again_after_s = retry_after_s(headers_told.get("Retry-After", ""), headers_told.get("Date", ""))
                raise self._refused(answer.status_code, said, again_after_s)
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise JunkReply  # nobody asked for it, and a little of it may become very much
            if kind == "text/event-stream":
                await self._follow(parts)
            elif kind == "application/json":
                self._came.take_whole(await at_most(parts, _MOST_WHOLE_BYTES))
            else:
                raise JunkReply

    async def _follow(self, parts: AsyncIterator[bytes]) -> None:
        """Take a stream in until it says that it is done, or is long enough."""
        lines, wire_bytes, nothing_bytes = EventLines(), 0, 0
        now_s = asyncio.get_running_loop().time
        stale_at_s: float | None = None
        while True:
            try:
                async with asyncio.timeout_at(stale_at_s):
                    part = await anext(parts, b"")
            except TimeoutError:
                raise self._failed(Trouble.STALLED) from None
            wire_bytes += len(part)
            nothing_bytes += len(part)
            for data in lines.feed(part) if part else ():
                if data == _DONE:
                    return
                if self._came.take(data):
                    nothing_bytes, stale_at_s = 0, now_s() + self._model.settings.stale_s
                if self._is_long_enough():
                    self._was_ended = True
                    return
            if wire_bytes > MOST_REPLY_BYTES:
                raise self._failed(Trouble.TOO_MUCH)
            if nothing_bytes > MOST_NOTHING_BYTES:
                raise self._failed(Trouble.STALLED if self._came.content.strip() else Trouble.NOTHING)
            if not part:  # a line that was begun is torn
                if not self._came.ended:
                    raise self._failed(Trouble.CUT)
                return

    def _is_long_enough(self) -> bool:
        came = self._came
        return came.pieces > self._most_tokens + _SPARE_PIECES or came.text_bytes > self._most_tokens * _BYTES_PER_TOKEN

    def _reply(self) -> ModelReply:
        settings, came = self._model.settings, self._came
        if came.tokens is not None:
            self._model.counter.learn(self._request, settings.output, came.tokens[0])
        return ModelReply(
            text=came.content,
            provider=settings.name,
            model=settings.model,
            usage=self.usage(),
            is_partial=self._was_ended or came.ended == "length",
            facts={"finish": came.ended},
        )

    def _failed(self, trouble: Trouble, detail: str = "") -> CallFailed:
        if trouble in (Trouble.NOT_REACHED, Trouble.NOT_TRUSTED):
            self._is_read = False
        return CallFailed(classify(trouble), self.usage(), text=self._came.content, detail=detail)

    def _refused(self, status: int, body: str, again_after_s: float = 0.0) -> CallFailed:
        self._is_read = bool(self._came.pieces)
        failure = classify(status, body)
        self._model.other_words |= failure.reason == "other_words"
        if failure.compress and (prompt := prompt_tokens_of(body)):
            self._model.counter.learn(self._request, self._model.settings.output, prompt)
        return CallFailed(
            failure,
            self.usage(),
            text=self._came.content,
            detail=f"answered {status}",
            again_after_s=again_after_s,
            window_tokens=window_of(body) if failure.compress else 0,
        )


async def _said(parts: AsyncIterator[bytes]) -> str:
    """Return what came of the body of a failure; the status is known already, so it is not waited for long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ERROR_BODY_S):
            return (await at_most(parts, _ERROR_BODY_BYTES)).decode("utf-8", "replace")
    return ""


def _is_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError) and not isinstance(seen, ssl.SSLWantReadError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
