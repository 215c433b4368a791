"""Server-sent events out of bytes as they come, within bounds: a line ends, and nothing does not go on for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

MOST_LINE_BYTES = 256 * 1024
"""A chunk of a stream takes some hundred bytes, a whole tool call in one some thousand."""


class LineTooLong(Exception):
    """A line does not end."""


class EventLines:
    """Cuts bytes into the data of events. Comments (keep-alives), other fields and empty lines are passed over."""

    def __init__(self, *, most_line_bytes: int = MOST_LINE_BYTES) -> None:
        self._most_line_bytes = most_line_bytes
        self._rest = b""

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yield the data of each line that has ended with this part.

        Raises:
            LineTooLong: one does not end.
        """
        *whole, self._rest = (self._rest + part).split(b"\n")
        for line in whole:
            if (data := data_of(line)) is not None:
                yield data
        if len(self._rest) > self._most_line_bytes:
            raise LineTooLong


def data_of(line: bytes) -> bytes | None:
    """Return what a line of an event carries, None when it carries nothing."""
    if line.startswith(b"data:"):
        return line[5:].strip() or None
    if line.startswith(b"error:"):  # how older servers of llama.cpp fail in the middle of a reply
        return b'{"error":' + line[6:].strip() + b"}"
    return None


async def at_most(parts: AsyncIterator[bytes], most_bytes: int) -> bytes:
    """Return the first ``most_bytes`` of a body."""
    body = b""
    async for part in parts:
        body += part[: most_bytes - len(body)]
        if len(body) >= most_bytes:
            break
    return body
