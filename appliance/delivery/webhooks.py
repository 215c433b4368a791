"""Posts what is queued for webhooks, each in its order and beside the others, and keeps the receipts (R5).

In: pending deliveries of the ledger. Out: one POST of JSON each, and how it ended. It is posted at least once: every try carries
the delivery's id as ``Idempotency-Key``, and what may have arrived before says so in its body.

    2xx                             delivered, unless the robot of a messenger says otherwise in its answer (``wire_format``)
    4xx                             failed: the same again would be refused again
    not sent, 3xx, 408, 425, 429, 503   given back: nothing was taken, no try is counted
    anything else                   given back as one that may have arrived: three of these and it is abandoned
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Channel, Delivery
from appliance.contracts.errors import Refused, Unavailable
from appliance.contracts.store import Ledger, T, Transaction
from appliance.delivery.ledger_failures import LedgerFailures
from appliance.delivery.outbox import Outbox
from appliance.delivery.settings import WebhookFormat, WebhookSettings
from appliance.delivery.wire_format import MOST_ANSWER_BYTES, Answer, Became, wire_format
from appliance.foundation.backoff import delays_s
from appliance.foundation.outbound import addresses_of, read_token, retry_after_s, tls_context
from appliance.foundation.supervisor import Degraded
from appliance.store import deliveries

if TYPE_CHECKING:
    import httpx

_NOT_TAKEN = frozenset({408, 425, 429, 503})  # says that nothing was done, and to come again
_DOUBT_WAITS_S = (30.0, 120.0)  # after the first and the second try that may have arrived, as the three are all there are
_PORTS = {"http": 80, "https": 443}
_MINUTE_S = 60.0
_HIDDEN = "**********"
_SHORTEST_KEY = 6  # characters; a shorter value of a query is no key, and would be found in plain words
_LONG_SEGMENT = 16  # characters; a shorter part of a path is a name


def webhook_waits() -> Iterator[float]:
    """Yield the pauses while nobody takes it: 1 s doubling to 60 s, as each try costs two writes to the card."""
    return delays_s(1.0, 60.0)


class Webhook(Outbox):
    """Service for one webhook. While it does not take what it is sent, the part ``webhook:NAME`` is degraded."""

    def __init__(
        self,
        name: str,
        settings: WebhookSettings,
        ledger: Ledger,
        clock: Clock,
        degraded: Degraded,
        *,
        waits: Callable[[], Iterator[float]] = webhook_waits,
        doubt_waits_s: tuple[float, ...] = _DOUBT_WAITS_S,
        failures: LedgerFailures | None = None,
        repeat: str = "",
        minute_s: float = _MINUTE_S,
        listeners: Sequence[Callable[[], None]] = (),
    ) -> None:
        """``listeners`` are called after each record of what became of a delivery; ``repeat`` are the words by which people learn
        that a message may be a repeat."""
        super().__init__(ledger, clock, Channel.WEBHOOK, waits, topic=name, failures=failures)
        self._part = f"webhook:{name}"
        self._settings = settings
        self._format = wire_format(settings, clock, repeat)
        self._keys = sorted(_keys_of(settings), key=len, reverse=True)
        self._minute_s = minute_s
        self._posted_mono_ns: deque[int] = deque(maxlen=self._format.most_in_a_minute or 0)
        self._degraded = degraded
        self._doubt_waits_s = doubt_waits_s
        self._at_least_s = 0.0
        self._client: httpx.AsyncClient | None = None
        self._listeners = listeners

    async def run(self) -> None:
        """Post for ever. Cancellation leaves the delivery under way to be repeated by the next run."""
        try:
            await super().run()
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()

    async def _until_ready(self) -> None:
        """A webhook is tried; there is no connection to wait for. A robot gets no more in a minute than it takes."""
        posted = self._posted_mono_ns
        if posted.maxlen and len(posted) == posted.maxlen:
            since_s = (self._clock.monotonic_ns() - posted[0]) / 1e9
            await asyncio.sleep(max(0.0, self._minute_s - since_s))

    async def _record(self, work: Callable[[Transaction], T]) -> T:
        value = await super()._record(work)
        for listener in self._listeners:
            listener()
        return value

    async def _pause(self, pause_s: float) -> None:
        await super()._pause(max(pause_s, self._at_least_s))

    async def _deliver(self, delivery: Delivery) -> bool:
        self._at_least_s = 0.0
        try:
            status, again_after_s, body = await self._post(delivery)
        except Refused as error:  # a token or certificate that cannot be used: it is put right while we wait
            return await self._again(delivery, error.message, may_have_arrived=False)
        except Unavailable as error:
            return await self._again(delivery, error.message, may_have_arrived=bool(error.facts.get("may_have_arrived")))
        why = f"answered {status}"
        if 200 <= status < 300:
            return await self._judged(delivery, self._format.judge(body))
        if status in _NOT_TAKEN or 300 <= status < 400:
            self._at_least_s = again_after_s
            return await self._again(delivery, why, may_have_arrived=False)
        if 400 <= status < 500:
            return await self._refused(delivery, why)
        return await self._again(delivery, why, may_have_arrived=True)

    async def _judged(self, delivery: Delivery, answer: Answer) -> bool:
        match answer.became:
            case Became.TAKEN:
                self._degraded.clear(self._part)
                await self._finish(delivery)
                return True
            case Became.REFUSED:
                return await self._refused(delivery, answer.why)
            case Became.LATER:
                self._at_least_s = answer.pause_s
                return await self._again(delivery, answer.why, may_have_arrived=False)
            case Became.DOUBTFUL:
                return await self._again(delivery, answer.why, may_have_arrived=True)

    async def _refused(self, delivery: Delivery, why: str) -> bool:
        why = self._without_keys(why)
        self._degraded.mark(self._part, why)
        await self._fail(delivery, why)
        return True

    async def _again(self, delivery: Delivery, why: str, *, may_have_arrived: bool) -> bool:
        why = self._without_keys(why)
        self._degraded.mark(self._part, why)
        if may_have_arrived and delivery.attempts <= len(self._doubt_waits_s):
            self._at_least_s = max(self._at_least_s, self._doubt_waits_s[delivery.attempts - 1])
        await self._give_back(delivery, why, may_have_been_heard=may_have_arrived)
        return False

    def _without_keys(self, why: str) -> str:
        """Return words without what opens the webhook: whoever answers may say it back to us."""
        for key in self._keys:
            why = why.replace(key, _HIDDEN)
        return why

    async def _post(self, delivery: Delivery) -> tuple[int, float, bytes]:
        """Post it once; return the status, after how many s to come again, and what a robot's answer says.

        Raises:
            Unavailable: there was no answer; the fact ``may_have_arrived`` says whether anything was sent.
            Refused: the settings cannot be used, or the host leads where nothing is posted to.
        """
        import httpx

        settings, parts = self._settings, urlsplit(self._settings.url)
        may_have_arrived = False
        try:
            async with asyncio.timeout(settings.timeout_s):
                headers = {"Idempotency-Key": delivery.id, "Host": parts.netloc}
                if token := await asyncio.to_thread(read_token, settings.token.get_secret_value(), settings.token_file):
                    headers["Authorization"] = f"Bearer {token}"
                addresses = await addresses_of(
                    settings.host,
                    parts.port or _PORTS[parts.scheme],
                    allowed=[str(each) for each in settings.allow_addresses],
                    is_plain=parts.scheme == "http" and not settings.allow_plain,
                )
                client = await self._open()
                may_have_arrived = True
                self._posted_mono_ns.append(self._clock.monotonic_ns())
                body = self._format.body(delivery)
                for address in addresses:
                    with contextlib.suppress(*(() if address == addresses[-1] else (httpx.ConnectError, httpx.ConnectTimeout))):
                        return await self._post_to(client, address, headers, body)
                raise Unavailable(f"{settings.host} has no address")
        except TimeoutError as error:
            raise Unavailable(f"no answer within {settings.timeout_s:g} s", may_have_arrived=may_have_arrived) from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unavailable(f"cannot be reached: {error or type(error).__name__}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Unavailable(f"the connection broke ({type(error).__name__})", may_have_arrived=True) from error

    async def _post_to(
        self, client: httpx.AsyncClient, address: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, float, bytes]:
        """Post to an address that was checked; the certificate is still the host's."""
        import httpx

        url = httpx.URL(self._settings.url).copy_with(host=address)
        if also := self._format.query():
            url = url.copy_with(query=b"&".join(part for part in (url.query, also.encode()) if part))
        named = {"sni_hostname": self._settings.host}
        async with client.stream("POST", url, content=body, headers=headers, extensions=named) as answer:
            said = bytearray()
            if self._settings.format is not WebhookFormat.GENERIC:
                async for part in answer.aiter_bytes():
                    said += part
                    if len(said) > MOST_ANSWER_BYTES:
                        break
            return answer.status_code, retry_after_s(answer.headers.get("Retry-After", "")), bytes(said)

    async def _open(self) -> httpx.AsyncClient:
        """Return the client. Made at the first post: importing httpx and loading certificates takes tens of ms."""
        if self._client is None:
            import httpx

            verify = await asyncio.to_thread(tls_context, self._settings.url, self._settings.ca_file)
            self._client = httpx.AsyncClient(
                headers={"Content-Type": "application/json", "User-Agent": "floorhand"},
                # Short of the whole, so that what was never connected to is known not to have got anything.
                timeout=httpx.Timeout(self._settings.timeout_s, connect=self._settings.timeout_s / 3),
                limits=httpx.Limits(max_connections=1),
                verify=verify,
                follow_redirects=False,
                trust_env=False,
            )
        return self._client


def _keys_of(settings: WebhookSettings) -> set[str]:
    """Return what opens the webhook: token, secret, and what of the URL may be a key."""
    parts = urlsplit(settings.url)
    told = {settings.token.get_secret_value(), settings.secret.get_secret_value()}
    told |= {value for _, value in parse_qsl(parts.query)}
    # A path may hold the key, and words that stand in any sentence.
    return {each for each in told if len(each) >= _SHORTEST_KEY} | {s for s in parts.path.split("/") if len(s) >= _LONG_SEGMENT}


class WebhookSender:
    """Service for all configured webhooks: one at a time each, so that a slow one keeps no other waiting."""

    def __init__(
        self,
        webhooks: Mapping[str, WebhookSettings],
        ledger: Ledger,
        clock: Clock,
        degraded: Degraded,
        *,
        waits: Callable[[], Iterator[float]] = webhook_waits,
        doubt_waits_s: tuple[float, ...] = _DOUBT_WAITS_S,
        failures: LedgerFailures | None = None,
        repeat: str = "",
        minute_s: float = _MINUTE_S,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self.listeners: list[Callable[[], None]] = []
        """Called after each record of what became of a delivery, on the event loop. May be filled later."""
        self._webhooks = {
            name: Webhook(
                name, each, ledger, clock, degraded,
                waits=waits, doubt_waits_s=doubt_waits_s, failures=failures, repeat=repeat, minute_s=minute_s,
                listeners=self.listeners,
            )
            for name, each in webhooks.items()
        }  # fmt: skip

    def notify(self) -> None:
        """Tell that a delivery was committed. Cheap; call it after every commit that queued one, from the event loop."""
        for webhook in self._webhooks.values():
            webhook.notify()

    async def run(self) -> None:
        """Post for ever. What waits for a webhook that is not configured any more is abandoned first."""
        names = frozenset(self._webhooks)
        await self._ledger.transaction(lambda tx: deliveries.abandon_webhooks_except(tx, self._clock, names))
        for listener in self.listeners:
            listener()
        async with asyncio.TaskGroup() as group:
            for name, webhook in self._webhooks.items():
                group.create_task(webhook.run(), name=f"webhook {name}")
            await asyncio.Event().wait()

    async def finish(self, limit_s: float) -> None:
        """Begin no further delivery, and wait at most ``limit_s`` for those under way. The rest goes after a restart."""
        await asyncio.gather(*(webhook.finish(limit_s) for webhook in self._webhooks.values()))
