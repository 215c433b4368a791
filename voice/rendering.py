"""The thread that renders speech: what is to be said now before what may be needed later."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from appliance.contracts.errors import FloorhandError, Malformed, Unavailable
from voice.prepared_audio import PreparedAudio
from voice.pronunciation import sentences
from voice.settings import VoiceSettings
from voice.sound import Sound
from voice.synthesizer import Synthesizer, load_synthesizer

log = logging.getLogger(__name__)

PART = "synthesizer"
_NOW, _LATER, _END = 0, 1, -1
_Order = tuple[int, int, str, str, "Future[Sound] | None"]


class Rendering:
    """Turns sentences into sound. ``report(part, why)`` is told when a language has no voice."""

    def __init__(self, settings: VoiceSettings, report: Callable[[str, str], None]) -> None:
        self._settings = settings
        self._report = report
        self._orders: queue.PriorityQueue[_Order] = queue.PriorityQueue()
        self._count = itertools.count()
        self._synthesizers: dict[str, Synthesizer] = {}
        self._prepared = PreparedAudio(settings.prepared_audio_mb * 1_000_000)
        self._thread = threading.Thread(target=self._run, name="rendering", daemon=True)
        self.waiting_to_prepare = 0

    @property
    def prepared(self) -> int:
        """Sentences whose sound is ready."""
        return len(self._prepared)

    @property
    def engine(self) -> str:
        """Engine of the configured language, empty until it is loaded."""
        synthesizer = self._synthesizers.get(self._settings.language)
        return synthesizer.engine if synthesizer is not None else ""

    def start(self) -> None:
        """Start the thread, which loads the configured language first."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after what it is rendering."""
        self._orders.put((_END, next(self._count), "", "", None))
        if self._thread.is_alive():
            self._thread.join(2.0)

    def order(self, sentence: str, language: str) -> Future[Sound]:
        """Render one sentence now; at once if it is prepared. The future raises the contracts' errors."""
        future: Future[Sound] = Future()
        ready = self._prepared.find((language, sentence))
        if ready is not None:
            future.set_result(ready)
        else:
            self._orders.put((_NOW, next(self._count), language, sentence, future))
        return future

    def prepare(self, texts: Sequence[str], language: str) -> None:
        """Render these when there is nothing else to do, and keep them."""
        for text in texts:
            try:
                parts = sentences(text, language)
            except Malformed as error:
                log.warning("voice.cannot_prepare", extra={"why": error.message})
                continue
            for sentence in parts:
                self.waiting_to_prepare += 1
                self._orders.put((_LATER, next(self._count), language, sentence, None))

    def _run(self) -> None:
        try:
            self._synthesizer(self._settings.language)
        except FloorhandError as error:
            log.warning("voice.no_synthesizer", extra={"why": error.message})
        while True:
            urgency, _, language, sentence, future = self._orders.get()
            if urgency == _END:
                return
            if future is None:
                self._prepare_one(language, sentence)
            elif future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._render(language, sentence))
                except FloorhandError as error:
                    future.set_exception(error)

    def _prepare_one(self, language: str, sentence: str) -> None:
        self.waiting_to_prepare -= 1
        if self._prepared.find((language, sentence)) is not None:
            return
        try:
            self._prepared.keep((language, sentence), self._render(language, sentence))
        except FloorhandError as error:
            log.warning("voice.cannot_prepare", extra={"why": error.message})

    def _render(self, language: str, sentence: str) -> Sound:
        try:
            return self._synthesizer(language).render(sentence)
        except (RuntimeError, ValueError, IndexError) as error:  # what Piper and ONNX raise for input they cannot digest
            raise Unavailable(f"the voice failed: {type(error).__name__}") from error

    def _synthesizer(self, language: str) -> Synthesizer:
        if language not in self._synthesizers:
            try:
                self._synthesizers[language] = load_synthesizer(self._settings, language)
            except FloorhandError as error:
                self._report(PART, error.message)
                raise
            if language == self._settings.language:
                self._report(PART, "")
        return self._synthesizers[language]
