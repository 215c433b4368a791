"""Says and publishes what is wrong with the storage, without the ledger: it is the ledger that cannot be written.

In: what is wrong now, a reply of the phrases and the detail for people who read. Out: one sentence, and one retained message
``{"trouble", "detail", "text", "at"}`` on ``floorhand/<client id>/trouble``, which is cleared when it is over. Nothing of this is
recorded, and nothing is promised beyond a fair try: there is no row that could say whether it was heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.contracts.clock import Clock, IdSource
from appliance.contracts.delivery import PRIORITY_ANNOUNCEMENT, Channel, Delivery, DeliveryStatus
from appliance.contracts.errors import Malformed, Refused, Unavailable
from appliance.contracts.ports import Broker, Mouth, Wording
from appliance.foundation.backoff import delays_s

log = logging.getLogger(__name__)

AGAIN_S = 1800.0
"""What is not mended is said again after half an hour: a shift must not begin without hearing of it."""
BACK = "storage_back"
"""Reply that says that it is over."""


MEMO_FILE = "last-words.json"


def memo_file(socket: Path, data_dir: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where what was said last is remembered: beside the local API's socket, unless that is on the disk that may be the
    trouble; then in the user's runtime folder, else in that for temporary files, with a name of this data folder's own."""
    if not socket.is_relative_to(data_dir):
        return socket.with_name(MEMO_FILE)
    user = os.getuid()
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}")
    folder = runtime if os.access(runtime, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    own = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]
    return folder / f"floorhand-{user}-{own}-{MEMO_FILE}"


def trouble_topic(client_id: str) -> str:
    """Return the topic of one appliance."""
    return f"floorhand/{client_id}/trouble"


@dataclass(frozen=True, slots=True)
class Trouble:
    """``reply`` is the sentence's name in the phrases, ``detail`` what a technician reads."""

    reply: str
    detail: str


class LastWords:
    """Service. Words are said once a change, and again every ``again_s`` while they hold.

    ``memo`` is a file that outlives the process but not the boot (below /run): who is started again and again because of one and
    the same trouble does not say it every time.
    """

    def __init__(
        self,
        mouth: Mouth,
        broker: Broker,
        wording: Wording,
        clock: Clock,
        ids: IdSource,
        *,
        language: str,
        client_id: str,
        memo: Path | None = None,
        again_s: float = AGAIN_S,
    ) -> None:
        self._mouth = mouth
        self._broker = broker
        self._wording = wording
        self._clock = clock
        self._ids = ids
        self._language = language
        self._topic = trouble_topic(client_id)
        self._memo = memo
        self._again_s = again_s
        self._trouble: Trouble | None = None
        self._changed = asyncio.Event()
        self.said = asyncio.Event()
        """Set once the present state was said, or need not be."""
        self.published = asyncio.Event()
        """Set once the broker has it."""

    def tell(self, trouble: Trouble | None) -> None:
        """Say what is wrong from now on, None: nothing any more. Call on the event loop; the same again changes nothing."""
        if trouble != self._trouble:
            self._trouble = trouble
            self._changed.set()

    async def run(self) -> None:
        """Say and publish for ever. Begins by clearing what a life before this one may have left at the broker."""
        told: Trouble | None = None
        while True:
            self._changed.clear()
            self.said.clear()
            self.published.clear()
            now = self._trouble
            async with asyncio.TaskGroup() as both:
                saying = [both.create_task(self._publish(now)), both.create_task(self._speak(now, told))]
                await self._wait(self._again_s if now else None)
                for task in saying:
                    task.cancel()
            told = now

    async def _wait(self, limit_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._changed.wait()

    # speech -----------------------------------------------------------------------------------------------------------
    async def _speak(self, now: Trouble | None, told: Trouble | None) -> None:
        reply = now.reply if now else BACK
        if (now is None and told is None) or self._was_said(reply):
            self.said.set()
            return
        await _until_taken(lambda: self._mouth.say(self._delivery(self._text(reply))))
        self.said.set()
        self._remember(reply)
        log.info("last_words.said", extra={"reply": reply})

    def _text(self, reply: str) -> str:
        return self._wording.reply(reply, self._language)

    def _delivery(self, text: str) -> Delivery:
        """Words as the mouth takes them. The number and the times are of no row."""
        return Delivery(
            id=self._ids.mint("delivery"),
            seq=0,
            channel=Channel.SPEECH,
            turn_id=None,
            language=self._language,
            lead="",
            text=text,
            priority=PRIORITY_ANNOUNCEMENT["high"],
            status=DeliveryStatus.ATTEMPTING,
            attempts=1,
            may_be_repeat=False,
            queued_utc=self._clock.utc(),
            queued_mono_ns=self._clock.monotonic_ns(),
            first_audio_mono_ns=None,
            ended_utc=None,
        )

    def _was_said(self, reply: str) -> bool:
        try:
            known = json.loads(self._memo.read_text("utf-8")) if self._memo else {}
            age_s = (self._clock.monotonic_ns() - int(known["mono_ns"])) / 1e9
            return bool(known["reply"] == reply and known["boot_id"] == self._clock.boot_id and 0 <= age_s < self._again_s)
        except (OSError, ValueError, TypeError, KeyError):
            return False

    def _remember(self, reply: str) -> None:
        if self._memo is not None:
            content = {"reply": reply, "boot_id": self._clock.boot_id, "mono_ns": self._clock.monotonic_ns()}
            with contextlib.suppress(OSError):
                self._memo.parent.mkdir(parents=True, exist_ok=True)
                how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC  # the folder may be everybody's
                with os.fdopen(os.open(self._memo, how, 0o600), "w", encoding="utf-8") as memo:
                    json.dump(content, memo)

    # the broker -------------------------------------------------------------------------------------------------------
    async def _publish(self, now: Trouble | None) -> None:
        payload = b"" if now is None else json.dumps(self._message(now), ensure_ascii=False).encode()

        async def publish() -> None:
            await self._broker.wait_connected()
            await self._broker.publish(self._topic, payload, retain=True)

        await _until_taken(publish)
        self.published.set()

    def _message(self, now: Trouble) -> dict[str, Any]:
        at = self._clock.utc().isoformat(timespec="milliseconds")
        return {"trouble": now.reply, "detail": now.detail, "text": self._text(now.reply), "at": at}


async def _until_taken(attempt: Callable[[], Any]) -> None:
    """Try until it is taken. What never will be (no voice for the words, no right to the topic) is left."""
    waits = delays_s(1.0, 30.0)
    while True:
        try:
            await attempt()
        except Unavailable as error:
            await asyncio.sleep(max(next(waits), error.retry_after_s))
        except (Malformed, Refused) as error:
            log.error("last_words.not_taken", extra={"why": error.message})
            return
        else:
            return
