"""A reply as it comes in, piece by piece: its text, how it ended, what the server counted. All of it is untrusted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from drivers.models.failures import Trouble
from drivers.models.refusal import is_count

_ENDS = ("stop", "length", "tool_calls", "content_filter")


class JunkReply(Exception):
    """What came is no piece of a reply."""


class ServerFailed(Exception):
    """The server says in the middle of a reply that it failed."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(slots=True)
class Incoming:
    """``tool`` is the one function that was offered, empty without. ``pieces`` counts what came of text or thought."""

    tool: str = ""
    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    other_tools: bool = False
    pieces: int = 0
    text_bytes: int = 0
    ended: str = ""
    tokens: tuple[int, int, int] | None = None  # in, out, of in cached

    def take(self, data: bytes) -> bool:
        """Take the data of one event; return whether it brought anything to read.

        Raises:
            JunkReply: it is no piece of a reply.
            ServerFailed: it says that the server failed.
        """
        return self._take(_parsed(data), "delta")

    def take_whole(self, body: bytes) -> None:
        """Take an answer that came at once, from a server that does not stream.

        Raises: as :meth:`take`.
        """
        self._take(_parsed(body), "message")

    @property
    def content(self) -> str:
        """What was answered: the function's arguments, else the text. Some servers write the form where the text belongs."""
        joined = "".join(self.arguments) or "".join(self.text)
        # The two halves of a character beyond the first plane may come in two pieces; a half alone is none.
        return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def trouble(self) -> Trouble | None:
        """Return what is wrong with a reply that is over, or None."""
        if self.ended == "content_filter":
            return Trouble.FILTERED
        if not self.content.strip():
            return Trouble.WRONG_TOOL if self.other_tools else Trouble.NOTHING
        return None

    def _take(self, event: Any, key: str) -> bool:
        if not isinstance(event, dict):
            raise JunkReply
        if (error := event.get("error")) is not None:
            raise _server_failed(error)
        if isinstance(event.get("usage"), dict):
            self.tokens = _tokens(event["usage"]) or self.tokens
        match event.get("choices"):
            case [dict() as choice, *_]:
                if isinstance(ended := choice.get("finish_reason"), str):
                    self.ended = ended if ended in _ENDS else "other"
                said = choice.get(key)
                return self._say(said) if isinstance(said, dict) else False
            case [] | None if self.tokens is not None or key == "delta":
                return False
        raise JunkReply

    def _say(self, said: dict[str, Any]) -> bool:
        before = self.text_bytes
        for where in ("reasoning_content", "reasoning"):
            self._add([], said.get(where))  # thoughts are a sign of life, and no answer
        self._add(self.text, said.get("content"))
        calls = said.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._call(call)
        has_come = self.text_bytes > before
        self.pieces += has_come
        return has_come

    def _call(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return
        name, index = function.get("name"), call.get("index", 0)
        if (name not in (None, "", self.tool)) or not self.tool or index not in (0, None):
            self.other_tools = True  # of several calls the first counts
            return
        if not self.other_tools:
            self._add(self.arguments, function.get("arguments"))

    def _add(self, where: list[str], piece: Any) -> None:
        if isinstance(piece, dict):  # a server that has parsed a function's arguments already
            piece = _written(piece)
        if isinstance(piece, str) and piece:
            where.append(piece)
            self.text_bytes += len(piece.encode("utf-8", "replace")) if piece.strip() else 0


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise JunkReply from error


def _server_failed(error: Any) -> ServerFailed:
    facts = error if isinstance(error, dict) else {"message": error}
    code = facts.get("code")
    is_status = isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600
    return ServerFailed(code if isinstance(code, int) and is_status else 500, _flat(facts)[:4096])


def _flat(facts: dict[str, Any]) -> str:
    return _written({name: value for name, value in facts.items() if isinstance(value, str | int)})


def _written(content: Any) -> str:
    try:
        return json.dumps(content, ensure_ascii=False)
    except RecursionError as error:
        raise JunkReply from error


def _tokens(usage: dict[str, Any]) -> tuple[int, int, int] | None:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (is_count(read) and is_count(written)):
        return None
    return read, written, min(cached, read) if is_count(cached) else 0
