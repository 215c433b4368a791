"""espeak-ng, Debian's program: a plain voice for every language, when there is no better one."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from collections.abc import Mapping

from appliance.contracts.errors import ConfigError, Malformed, Unavailable
from voice.sound import Sound

_VOICES: Mapping[str, str] = {"zh": "cmn", "en": "en-us"}  # where espeak-ng's name is not the ISO 639 code
_WORDS_A_MINUTE = 150  # its default of 175 is hard to follow in a hall
_WITHIN_S = 20.0  # it renders hundreds of times faster than real time
_HEAD_BYTES = 44


class EspeakSynthesizer:
    """Implements Synthesizer by one short process a sentence: it holds nothing while silent."""

    engine = "espeak"

    def __init__(self, language: str, *, rate: float) -> None:
        """Find the program.

        Raises:
            ConfigError: espeak-ng is not installed, or has no voice of the language.
        """
        program = shutil.which("espeak-ng")
        if program is None:
            raise ConfigError(
                f"no voice of {language}: espeak-ng is not installed", file="appliance.yaml", key="voice.synthesizer",
                cure=f"Install the package espeak-ng, or add a Piper voice as piper-{language} under models.",
            )  # fmt: skip
        self.language = language
        self._command = [program, "-v", _VOICES.get(language, language), "-s", str(int(_WORDS_A_MINUTE * rate))]
        self._command += ["--stdin", "--stdout", "-b", "1"]  # UTF-8; by standard input no text can be taken for an option
        try:
            self.render("1")
        except (Unavailable, Malformed) as error:
            raise ConfigError(
                f"espeak-ng has no voice of {language}",
                file="appliance.yaml",
                key="voice.language",
                cure="Choose another one.",
            ) from error

    def render(self, sentence: str) -> Sound:
        """See Synthesizer."""
        try:
            done = subprocess.run(self._command, input=sentence.encode(), capture_output=True, timeout=_WITHIN_S, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise Unavailable(f"espeak-ng failed: {error}") from error
        if len(done.stdout) <= _HEAD_BYTES:
            raise Malformed("the voice makes no sound of it")
        with wave.open(io.BytesIO(done.stdout), "rb") as file:
            rate_hz = file.getframerate()
        return Sound(done.stdout[_HEAD_BYTES:], rate_hz)  # a pipe's header does not know the length: all after it is sound
