"""How many tokens a text is, without its tokenizer: on the safe side by script, then calibrated by what servers report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from appliance.contracts.model import ModelRequest

MESSAGE_TOKENS = 6
"""What a chat template puts round one message: 3 (OpenAI) to 5 (ChatML: start, role, line, end, line), and one to spare."""
TEMPLATE_TOKENS = 24
"""What it puts round the whole: the start of the reply (3), and the system message some add when there is none (SmolLM2: 20)."""
FORM_TOKENS = 60
"""What servers write round a function: TypeScript-like or JSON, with a sentence of how it is called."""

Output = Literal["schema", "tools", "text"]
"""How a model is made to answer in a form."""

_LEAST_FACTORS = {"ascii": 0.9, "other": 0.4}
"""Below, nothing is believed. Of ASCII little is: a server reports on prose; the next request may hold numbers, ids or another
language's words, which take every token that is counted for them; a fifth too few and the reply has no room."""
_MOST_FACTOR = 3.0  # further off is no tokenizer but a server that counts something else
_DOMINANT = 0.9  # a report says something of one script alone when that makes up so much of the text
_FEWEST_TOKENS = 100  # below, the template's share hides what the text takes
_FORGETTING = 0.1  # how much of a lower ratio is taken over at once; a higher one is taken whole
_SPARE = 1.05

_PIECES = re.compile(
    r"(?P<bare>[B-DF-HJ-NP-TV-XZ]?[b-df-hj-np-tv-xz]+(?![a-z]))|(?P<lower>[A-Za-z]?[a-z]+)|(?P<upper>[A-Z]+)"
    r"|(?P<number> ?\d+)|(?P<space>[ \t]+|[\r\n]+)|(?P<mark>([!-/:-@\[-`{-~])\2*)"
    r"|(?P<other>[^\x00-\x7f])|(?P<control>[\x00-\x1f\x7f])"
)
_TWO_BYTES_LAST, _THREE_BYTES_LAST = "\u07ff", "\uffff"
_HANGUL = ("가", "힣")


class TokenCounter:
    """Counts for one model. Byte-level vocabularies of 49,000 to 200,000 entries are assumed; :meth:`learn` corrects it."""

    def __init__(self) -> None:
        self._factors = {"ascii": 1.0, "other": 1.0}

    def count(self, text: str) -> int:
        """Return the tokens of ``text``."""
        plain, other = _pieces(text)
        return _up(plain * self._factors["ascii"] + other * self._factors["other"])

    def request(self, request: ModelRequest, output: Output) -> int:
        """Return the tokens of a request. The schema counts where the model reads it; a grammar made of it takes none."""
        return self._around(request, output) + sum(self.count(each) for each in _texts(request, output))

    def learn(self, request: ModelRequest, output: Output, reported: int) -> None:
        """Take note that a server counted ``reported`` tokens for a request.

        More than thought is believed at once, whatever the template took; not so much more that it is no count of this text. Less
        is believed slowly, if the template took nothing, and only of the script the request is written in: the count has to stay
        on the safe side. What was taken for more than at first goes back there in any case.
        """
        parts = [_pieces(each) for each in _texts(request, output)]
        plain, other = sum(each[0] for each in parts), sum(each[1] for each in parts)
        if reported < _FEWEST_TOKENS or plain + other < _FEWEST_TOKENS:
            return
        held = plain * self._factors["ascii"] + other * self._factors["other"]
        least = (reported - self._around(request, output)) / held
        if least * held > _MOST_FACTOR * (plain + other):
            return
        for script, share in (("ascii", plain / (plain + other)), ("other", other / (plain + other))):
            factor = self._factors[script]
            if least > 1:
                self._set(script, factor * least * _SPARE)
            elif (told := factor * _SPARE * reported / held) < factor and (share >= _DOMINANT or factor > 1):
                lower = factor + _FORGETTING * (told - factor)
                self._set(script, lower if share >= _DOMINANT else max(1.0, lower))

    def _around(self, request: ModelRequest, output: Output) -> int:
        form = FORM_TOKENS if request.schema is not None and output != "schema" else 0
        return TEMPLATE_TOKENS + MESSAGE_TOKENS * len(request.messages) + form

    def _set(self, script: str, factor: float) -> None:
        self._factors[script] = min(_MOST_FACTOR, max(_LEAST_FACTORS[script], factor))


def schema_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as it is sent where the model reads it: nothing in it but what it says."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _texts(request: ModelRequest, output: Output) -> list[str]:
    texts = [each.content for each in request.messages]
    return texts if request.schema is None or output == "schema" else [*texts, schema_text(request.schema)]


def _pieces(text: str) -> tuple[float, float]:
    """Return the tokens of the ASCII part and of the rest."""
    plain = other = 0.0
    for piece in _PIECES.finditer(text):
        length = piece.end() - piece.start()
        match piece.lastgroup:
            case "lower":
                plain += 1 if length <= 6 else length / 3
            case "upper" | "bare":  # no vowel: an abbreviation, no word of a vocabulary
                plain += (length + 1) // 2
            case "mark":
                plain += (length + 3) // 4
            case "space":
                plain += 0 if piece.group() == " " else (length + 3) // 4  # a single space is the beginning of a word
            case "number" | "control":
                plain += length  # a vocabulary that parts digits has the space before them for itself, too
            case _:
                other += _of_character(piece.group())
    return plain, other


def _of_character(character: str) -> float:
    """Return the tokens of one character beyond ASCII; never more than its bytes in UTF-8."""
    if character <= _TWO_BYTES_LAST:
        return 1.5  # it also breaks the word it stands in
    if _HANGUL[0] <= character <= _HANGUL[1]:
        return 2.8
    return 2.0 if character <= _THREE_BYTES_LAST else 3.0


def _up(tokens: float) -> int:
    return int(-(-tokens // 1))
