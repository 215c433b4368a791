"""Several models as one: each tried in its turn, with retries, keys in rotation and rests, until one answers (A2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from appliance.contracts.clock import Clock
from appliance.contracts.errors import FloorhandError
from appliance.contracts.model import ContextOverflow, ModelCall, ModelReply, ModelRequest, ModelsAway
from appliance.foundation.backoff import delays_s
from appliance.foundation.supervisor import Degraded
from drivers.models.chat import Call, ChatModel
from drivers.models.failures import NO_LENGTH_FITS, CallFailed, Failure, Trouble, classify
from drivers.models.settings import ModelSettings
from drivers.models.standing import Standing

log = logging.getLogger(__name__)

PART = "models"
"""What is degraded while none answers."""
ONE_PART = "model"
"""What is degraded, with a colon and its name, while one of several fails with what only a person mends."""
TRIES = 3
"""Of one provider in one call, keys in rotation not counted."""
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 60.0  # A2
_NOTE_S = 5.0  # an account that is not taken in this time is given up; the reply is not
_S = 1_000_000_000

Note = Callable[[ModelCall], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]


async def note_nothing(call: ModelCall) -> None:
    """Keep no account."""


class _Provider:
    def __init__(self, settings: ModelSettings, clock: Clock) -> None:
        self.settings = settings
        self.chat = ChatModel(settings, clock)
        self.standing = Standing(settings.name, settings.context_tokens, clock)

    @property
    def name(self) -> str:
        return f"{self.settings.name}/{self.settings.model}" if self.settings.model else self.settings.name


class _Attempt:
    """One call of the chain: when it has to be over, and the best of what broke off."""

    def __init__(self, request: ModelRequest, clock: Clock, within_s: float) -> None:
        self.request = request
        self._clock = clock
        self._ends_ns = clock.monotonic_ns() + int(within_s * _S)
        self.half: ModelReply | None = None
        self.reasons: dict[str, CallFailed] = {}

    @property
    def left_s(self) -> float:
        return max(0, self._ends_ns - self._clock.monotonic_ns()) / _S

    def keep(self, provider: _Provider, error: CallFailed) -> None:
        """Keep what had come of a reply, if it is the longest so far."""
        if error.text.strip() and (self.half is None or len(error.text) > len(self.half.text)):
            facts = {"finish": error.failure.reason}
            settings = provider.settings
            self.half = ModelReply(error.text, settings.name, settings.model, error.usage, is_partial=True, facts=facts)


class ModelChain:
    """Implements :class:`appliance.contracts.model.LanguageModel`.

    ``is_away`` is whether none answers; ``on_away`` (reasons by provider) and ``on_back`` are told of each change on the event
    loop, and part ``models`` is degraded meanwhile. Every try is accounted through ``note``.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        clock: Clock,
        *,
        within_s: float,
        note: Note = note_nothing,
        degraded: Degraded | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not models:
            raise ValueError("a chain needs a model")
        self._providers = [_Provider(each, clock) for each in models]
        self._clock = clock
        self._within_s = within_s
        self._note = note
        self._degraded = degraded
        self._sleep = sleep
        self._is_accounted = True
        self.is_away = False
        self.on_away: list[Callable[[Mapping[str, str]], None]] = []
        self.on_back: list[Callable[[], None]] = []

    @property
    def context_tokens(self) -> int:
        """See :attr:`appliance.contracts.model.LanguageModel.context_tokens`."""
        return self._next.standing.context_tokens

    @property
    def name(self) -> str:
        """See :attr:`appliance.contracts.model.LanguageModel.name`."""
        return self._next.name

    def count_tokens(self, text: str) -> int:
        """See :meth:`appliance.contracts.model.LanguageModel.count_tokens`."""
        return self._next.chat.counter.count(text)

    def request_tokens(self, request: ModelRequest) -> int:
        """See :meth:`appliance.contracts.model.LanguageModel.request_tokens`."""
        return self._request_tokens(self._next, request)

    def facts(self) -> list[dict[str, Any]]:
        """Return how each model stands, for status."""
        return [
            {
                "name": each.settings.name,
                "model": each.settings.model,
                "ready": each.standing.is_ready,
                "reason": each.standing.reason,
                "why": each.standing.words,
                "ready_in_s": round(each.standing.ready_in_s, 1),
                "context_tokens": each.standing.context_tokens,
            }
            for each in self._providers
        ]

    async def complete(self, request: ModelRequest) -> ModelReply:
        """See :meth:`appliance.contracts.model.LanguageModel.complete`. Cancelling closes the connection at once."""
        attempt = _Attempt(request, self._clock, self._within_s)
        for provider in self._providers:
            if not provider.standing.is_ready or not attempt.left_s:
                continue
            try:
                with provider.standing.asked():
                    reply = await self._ask(provider, attempt)
            except CallFailed as error:
                attempt.reasons[provider.settings.name] = error
                attempt.keep(provider, error)
                continue
            self._answered(provider)
            return reply
        self._look_whether_all_are_away()
        if attempt.half is not None:
            return attempt.half
        raise self._away(attempt)

    def give_up(self, name: str) -> bool:
        """See :meth:`appliance.contracts.model.LanguageModel.give_up`."""
        for provider in self._providers:
            if provider.name == name and provider.standing.is_ready:
                provider.standing.unlearn_window()
                provider.chat.unlearn()
                self._rest(provider, NO_LENGTH_FITS, NO_LENGTH_FITS.words)
        self._look_whether_all_are_away()
        return any(each.standing.is_ready for each in self._providers)

    @property
    def is_known_away(self) -> bool:
        """Whether none answers, and none may have become well since it was asked last."""
        return self.is_away and all(each.standing.is_known_away for each in self._providers)

    async def close(self) -> None:
        """Close the connections, once nobody asks any more."""
        for provider in self._providers:
            await provider.chat.close()

    async def _ask(self, provider: _Provider, attempt: _Attempt) -> ModelReply:
        """Ask one provider, again and with other keys as long as that may help. Lets it rest when it does not.

        Raises:
            CallFailed: it does not answer.
            ContextOverflow: the request is too long.
        """
        standing, keys = provider.standing, provider.chat.keys
        self._require_fit(provider, attempt.request)
        tries, others = 1 if standing.is_doubtful else TRIES, keys - 1
        waits = delays_s(FIRST_WAIT_S, LONGEST_WAIT_S)
        while True:
            limit_s = min(provider.settings.timeout_s, attempt.left_s)
            try:
                return await self._try(provider, attempt.request, limit_s)
            except CallFailed as error:
                failure = error.failure
                if failure.compress:
                    standing.learn_window(error.window_tokens)
                    raise self._too_long(provider) from error
                attempt.keep(provider, error)
                if failure.rotate and others and attempt.left_s:
                    others -= 1
                    standing.key = (standing.key + 1) % keys
                    continue
                tries -= 1
                pause_s = max(min(next(waits), LONGEST_WAIT_S), error.again_after_s)
                goes_on = (error.again_after_s > 0 or failure.slow) and self._has_another(provider)
                if not failure.retryable or not tries or goes_on or pause_s >= attempt.left_s:
                    if failure.rests and not self._was_cut_short(provider, failure.reason, limit_s):
                        self._rest(provider, failure, error.words, error.again_after_s)
                    raise
            await self._sleep(pause_s)
            others = keys - 1  # after a wait each may do again

    async def _try(self, provider: _Provider, request: ModelRequest, limit_s: float) -> ModelReply:
        call = provider.chat.call(request)
        try:
            reply = await call.run(provider.standing.key, limit_s)
        except asyncio.CancelledError:
            await self._account(provider, request, call, "cancelled")
            raise
        except CallFailed as error:
            await self._account(provider, request, call, error.failure.reason)
            raise
        await self._account(provider, request, call, "partial" if reply.is_partial else "ok")
        return reply

    def _was_cut_short(self, provider: _Provider, reason: str, limit_s: float) -> bool:
        """Whether it was given so little of the time that is left that its being late says nothing of it."""
        usual_s = min(provider.settings.timeout_s, self._within_s)
        return reason == classify(Trouble.TIMEOUT).reason and limit_s < usual_s / 2

    def _has_another(self, provider: _Provider) -> bool:
        later = self._providers[self._providers.index(provider) + 1 :]
        return any(each.standing.is_ready for each in later)

    async def _account(self, provider: _Provider, request: ModelRequest, call: Call, outcome: str) -> None:
        usage, settings = call.usage(), provider.settings
        done = ModelCall(
            provider=settings.name,
            model=settings.model,
            purpose=request.purpose,
            outcome=outcome,
            usage=usage,
            session_id=request.session_id,
            turn_id=request.turn_id,
            began_utc=call.began_utc,
        )
        why = ""
        try:
            async with asyncio.timeout(_NOTE_S):
                await self._note(done)
        except FloorhandError as error:
            why = error.message
        except TimeoutError:
            why = f"not noted within {_NOTE_S:g} s"
        if self._is_accounted == bool(why):
            self._is_accounted = not why
            if why:
                log.warning("model.unaccounted", extra={"why": why})
            else:
                log.info("model.accounted")

    @property
    def _next(self) -> _Provider:
        """The one that is asked next: the first that is ready, or that will be."""
        return min(self._providers, key=lambda each: (not each.standing.is_ready, each.standing.ready_in_s))

    def _request_tokens(self, provider: _Provider, request: ModelRequest) -> int:
        return provider.chat.counter.request(request, provider.settings.output)

    def _require_fit(self, provider: _Provider, request: ModelRequest) -> None:
        """Some servers drop the beginning of what is too long and say nothing: it is not sent."""
        if self._request_tokens(provider, request) > provider.standing.context_tokens:
            raise self._too_long(provider)

    def _too_long(self, provider: _Provider) -> ContextOverflow:
        name, window = provider.settings.name, provider.standing.context_tokens
        return ContextOverflow(f"the request does not fit the {window} tokens of {name}", context_tokens=window, provider=name)

    def _rest(self, provider: _Provider, failure: Failure, words: str, at_least_s: float = 0.0) -> None:
        provider.standing.failed(failure, words, at_least_s)
        if provider.standing.needs_person and self._degraded is not None and len(self._providers) > 1:
            self._degraded.mark(f"{ONE_PART}:{provider.settings.name}", provider.standing.words)

    def _answered(self, provider: _Provider) -> None:
        provider.standing.answered()
        if self._degraded is not None:
            self._degraded.clear(f"{ONE_PART}:{provider.settings.name}")
        if self.is_away:
            self.is_away = False
            log.info("models.back", extra={"provider": provider.settings.name})
            if self._degraded is not None:
                self._degraded.clear(PART)
            for listener in self.on_back:
                listener()

    def _look_whether_all_are_away(self) -> None:
        if self.is_away or any(not each.standing.ready_in_s for each in self._providers):
            return
        self.is_away = True
        reasons = {each.settings.name: each.standing.reason for each in self._providers}
        log.warning("models.away", extra={"reasons": reasons})
        if self._degraded is not None:
            self._degraded.mark(PART, _spoken({each.settings.name: each.standing.words for each in self._providers}))
        for listener in self.on_away:
            listener(reasons)

    def _away(self, attempt: _Attempt) -> ModelsAway:
        standings = [each.standing for each in self._providers]
        failed = attempt.reasons
        reasons = {each.name: failed[each.name].failure.reason if each.name in failed else each.reason for each in standings}
        words = {each.name: failed[each.name].words if each.name in failed else each.words for each in standings}
        again_s = min(each.ready_in_s for each in standings)
        return ModelsAway(f"no language model answers: {_spoken(words)}", retry_after_s=again_s, reasons=reasons)


def _spoken(words: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {said or 'not asked, no time was left'}" for name, said in words.items())
