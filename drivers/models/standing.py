"""How one provider stands: whether it may be asked now, and with which of its keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from appliance.contracts.clock import Clock
from drivers.models.failures import Failure
from drivers.models.settings import FEWEST_CONTEXT_TOKENS

log = logging.getLogger(__name__)

FIRST_REST_S, LONGEST_REST_S = 60.0, 4 * 3600.0  # A2
WINDOW_HELD_S = LONGEST_REST_S
"""So long a window that a server named is believed; asking it again then costs one request that is refused."""
_S = 1_000_000_000


class Standing:
    """``reason`` is why it rests or rested last, empty while it is well.

    It rests after a failure, twice as long after each. When it has rested it is asked once, by one caller: that either ends its
    rests or makes the next. ``needs_person``: what it failed with last does not mend itself.
    """

    def __init__(self, name: str, context_tokens: int, clock: Clock) -> None:
        self.name = name
        self.key = 0
        self.reason = ""
        self.words = ""
        self.needs_person = False
        self._configured_tokens = context_tokens
        self._learnt_tokens, self._learnt_until_ns = 0, 0
        self._clock = clock
        self._strikes = 0
        self._ready_at_ns = 0
        self._is_being_tried = False

    @property
    def context_tokens(self) -> int:
        """Its window: as configured, or as its server said lately if that is smaller."""
        is_learnt = self._clock.monotonic_ns() < self._learnt_until_ns
        return self._learnt_tokens if is_learnt else self._configured_tokens

    @property
    def is_known_away(self) -> bool:
        """Whether it rests, or failed with what does not mend itself; else nobody knows whether it is well again."""
        return self.ready_in_s > 0 or (self.is_doubtful and self.needs_person)

    @property
    def is_ready(self) -> bool:
        """Whether it may be asked now."""
        return self.ready_in_s == 0 and not self._is_being_tried

    @property
    def is_doubtful(self) -> bool:
        """Whether it failed last: it is asked once, not several times."""
        return self._strikes > 0

    @property
    def ready_in_s(self) -> float:
        """How long it still rests."""
        return max(0, self._ready_at_ns - self._clock.monotonic_ns()) / _S

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Keep others from asking it too, while nobody knows whether it is well again."""
        is_probe = self.is_doubtful
        self._is_being_tried |= is_probe
        try:
            yield
        finally:
            if is_probe:
                self._is_being_tried = False

    def failed(self, failure: Failure, words: str, at_least_s: float = 0.0) -> None:
        """Let it rest, at least as long as it asked for. One that rests already is left alone: several had asked it at once."""
        if self.ready_in_s > 0:
            return
        rest_s = max(min(LONGEST_REST_S, FIRST_REST_S * 2.0**self._strikes), at_least_s)
        self._strikes = min(self._strikes + 1, 16)
        self._ready_at_ns = self._clock.monotonic_ns() + int(rest_s * _S)
        self.reason, self.words, self.needs_person = failure.reason, words, failure.person
        log.warning("model.rests", extra={"provider": self.name, "reason": self.reason, "rest_s": rest_s})

    def answered(self) -> None:
        """It is well."""
        if self._strikes:
            log.info("model.answers", extra={"provider": self.name})
        self._strikes, self._ready_at_ns, self.reason, self.words, self.needs_person = 0, 0, "", "", False

    def learn_window(self, tokens: int) -> None:
        """Take note for a while that its window is smaller than configured; one that holds nothing is not believed."""
        if FEWEST_CONTEXT_TOKENS <= tokens < self._configured_tokens:
            log.warning("model.window", extra={"provider": self.name, "configured": self._configured_tokens, "is": tokens})
            self._learnt_tokens = tokens
            self._learnt_until_ns = self._clock.monotonic_ns() + int(WINDOW_HELD_S * _S)

    def unlearn_window(self) -> None:
        """Take its window to be as configured again."""
        self._learnt_until_ns = 0
