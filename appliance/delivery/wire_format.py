"""How a webhook wants it: what is posted, where exactly, and what an answer means. One class a format.

    generic    our payload as JSON; the status alone is the answer
    wecom      a text message of a group robot (developer.work.weixin.qq.com, "群机器人配置说明")
    dingtalk   a text message of a custom robot (open.dingtalk.com, "自定义机器人")

Both robots answer 200 to nearly everything; ``errcode`` says what became of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol
from urllib.parse import quote_plus

from appliance.contracts.clock import Clock
from appliance.contracts.delivery import Delivery
from appliance.delivery.json_body import json_body
from appliance.delivery.message_text import message_text
from appliance.delivery.settings import WebhookFormat, WebhookSettings
from appliance.foundation.canonical import canonical_json
from appliance.foundation.untrusted import clean

MOST_TEXT_BYTES = 2_048
"""Of a WeCom robot's text, as documented. DingTalk's takes more; nobody reads more in a group."""

MOST_IN_A_MINUTE = 20
"""Messages a robot takes in a minute, as both document. Beyond it DingTalk takes none for ten minutes."""

MOST_ANSWER_BYTES = 64 * 1024

_SHOWN_OF_ANSWER = 200  # characters of a robot's own words


class Became(Enum):
    """What an answer of status 2xx says became of a message."""

    TAKEN = "taken"
    LATER = "later"  # it was not taken, and may be when it comes again
    REFUSED = "refused"  # the same again would be refused again
    DOUBTFUL = "doubtful"  # it is no answer such a robot gives: it may have been taken


@dataclass(frozen=True, slots=True)
class Answer:
    """``why`` is for people, empty when it was taken; ``pause_s`` is how long to wait at least before anything is sent again."""

    became: Became
    why: str = ""
    pause_s: float = 0.0


class WireFormat(Protocol):
    """One format for one webhook."""

    most_in_a_minute: int | None
    """None: as many as there are."""

    def body(self, delivery: Delivery) -> bytes:
        """Return what is posted."""
        ...

    def query(self) -> str:
        """Return what the URL's query has to have besides, for a post that is made now; it may be empty."""
        ...

    def judge(self, body: bytes) -> Answer:
        """Say what an answer of status 2xx means."""
        ...


def wire_format(settings: WebhookSettings, clock: Clock, repeat: str) -> WireFormat:
    """Return the format a webhook is configured for. ``repeat`` are the words that say "this may be a repeat" to people."""
    match settings.format:
        case WebhookFormat.GENERIC:
            return Generic()
        case WebhookFormat.WECOM:
            return WeCom(repeat)
        case WebhookFormat.DINGTALK:
            return DingTalk(repeat, clock, settings.secret.get_secret_value())


class Generic:
    """Our own JSON. Whoever takes it says so by the status."""

    most_in_a_minute: int | None = None

    def body(self, delivery: Delivery) -> bytes:
        """Return the payload."""
        return json_body(delivery)

    def query(self) -> str:
        """Nothing."""
        return ""

    def judge(self, body: bytes) -> Answer:
        """A good status is all there is."""
        return Answer(Became.TAKEN)


class _Robot:
    """What both robots share: text messages, ``errcode`` and the limit of messages in a minute."""

    most_in_a_minute: int | None = MOST_IN_A_MINUTE
    later: ClassVar[Mapping[int, float]]
    """Codes that say to come again, each with the pause in s that this robot wants."""

    def __init__(self, repeat: str) -> None:
        self._repeat = repeat

    def body(self, delivery: Delivery) -> bytes:
        """Return the text message."""
        lead = self._repeat if delivery.may_be_repeat else ""
        text = message_text(delivery.payload or {}, lead=lead, most_bytes=MOST_TEXT_BYTES)
        return canonical_json({"msgtype": "text", "text": {"content": text}}).encode()

    def query(self) -> str:
        """Nothing: the key is in the URL already."""
        return ""

    def judge(self, body: bytes) -> Answer:
        """Read ``{"errcode": 0, "errmsg": "ok"}``."""
        match _answered(body):
            case {"errcode": 0}:
                return Answer(Became.TAKEN)
            case {"errcode": int(code), **more}:
                return self._not_taken(code, f"answered errcode {code}: {_own_words(more.get('errmsg'))}")
            case _:
                return Answer(Became.DOUBTFUL, "answered without an errcode: is that the address of such a robot?")

    def _not_taken(self, code: int, why: str) -> Answer:
        return Answer(Became.LATER, why, self.later[code]) if code in self.later else Answer(Became.REFUSED, why)


class WeCom(_Robot):
    """A group robot of WeCom (企业微信)."""

    later: ClassVar[Mapping[int, float]] = {45009: 60.0, -1: 0.0}  # more than 20 messages in a minute; the system is busy


class DingTalk(_Robot):
    """A custom robot of DingTalk (钉钉). With a secret each post is signed with the time of day, which may be wrong by an hour at
    most: while nothing sets our clock, what is refused for that is kept and tried again."""

    # 20 messages in a minute, in the older and the newer form of the documentation; the system is busy
    later: ClassVar[Mapping[int, float]] = {130101: 600.0, 410100: 600.0, -1: 0.0}
    _not_let_in = 310000  # no keyword of the robot in the text, a wrong signature or time, or another address than it allows

    def __init__(self, repeat: str, clock: Clock, secret: str) -> None:
        super().__init__(repeat)
        self._clock = clock
        self._secret = secret

    def query(self) -> str:
        """Return time and signature: HMAC-SHA256 of ``timestamp\\nsecret`` under the secret, base64, for a URL."""
        if not self._secret:
            return ""
        timestamp_ms = round(self._clock.utc().timestamp() * 1000)
        signed = hmac.new(self._secret.encode(), f"{timestamp_ms}\n{self._secret}".encode(), hashlib.sha256).digest()
        return f"timestamp={timestamp_ms}&sign={quote_plus(base64.b64encode(signed))}"

    def _not_taken(self, code: int, why: str) -> Answer:
        """What is not let in while nothing sets our clock may be let in once something does."""
        if code != self._not_let_in or not self._secret or self._clock.is_synced:
            return super()._not_taken(code, why)
        why += " (nothing sets this machine's clock, and the signature needs the right time: see `floorhand doctor`)"
        return Answer(Became.LATER, why, 60.0)


def _answered(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _own_words(message: object) -> str:
    """Return a robot's own words in one bounded line: they are somebody else's."""
    return clean(str(message or "no reason given"), _SHOWN_OF_ANSWER)
