"""A sentence encoder as rooms see it: memory finds by likeness with it, planning finds the nearest example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one unit vector a text: float32 (len(texts), dimension).

        Raises:
            Unavailable: not loaded.
        """
        ...

    async def close(self) -> None:
        """Give back the thread and the memory."""
        ...
