"""The group robots of WeCom and DingTalk as their documentation describes them, strictly: a real HTTP server that takes what they
take and answers what they answer.

WeCom: developer.work.weixin.qq.com/document/path/91770. DingTalk: open.dingtalk.com, "自定义机器人接入" and "安全设置".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.web_server import Posted

OK = {"errcode": 0, "errmsg": "ok"}
_LONGEST_WECOM_BYTES = 2_048
_HOUR_MS = 3_600_000

Answered = tuple[int, dict[str, str], bytes]


def _answer(told: dict[str, Any]) -> Answered:
    return 200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(told, ensure_ascii=False).encode()


def _shape_fault(posted: Posted) -> str:
    """What is wrong with a text message: exactly these members, of these types, and the header that says what it is."""
    body = posted.body
    if posted.headers.get("content-type", "").partition(";")[0] != "application/json":
        return "Content-Type"
    if set(body) - {"msgtype", "text", "at"} or body.get("msgtype") != "text" or set(body.get("text", {})) != {"content"}:
        return "members"
    return "" if isinstance(body["text"]["content"], str) and body["text"]["content"].strip() else "content"


@dataclass
class Robot:
    """``texts`` are what it took. ``busy`` answers are given first, one a request."""

    texts: list[str] = field(default_factory=list)
    busy: list[dict[str, Any]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def _no(self, code: int, message: str) -> Answered:
        self.refused[message] += 1
        return _answer({"errcode": code, "errmsg": message})

    def _take(self, posted: Posted) -> Answered:
        if self.busy:
            return _answer(self.busy.pop(0))
        self.texts.append(posted.body["text"]["content"])
        return _answer(OK)


@dataclass
class WeComRobot(Robot):
    """Takes messages under its key."""

    key: str = "693a91f6-7aoc-4bc4-97a0-0ec2sifa5aaa"

    def answer(self, posted: Posted) -> Answered:
        """Answer one request."""
        parts = urlsplit(posted.path)
        if parts.path != "/cgi-bin/webhook/send" or parse_qs(parts.query) != {"key": [self.key]}:
            return self._no(93000, f"invalid webhook url, hint: [{parts.query}]")  # says back what it was given
        if fault := _shape_fault(posted):
            return self._no(40058, f"invalid Request Parameter: {fault}")
        if len(posted.body["text"]["content"].encode()) > _LONGEST_WECOM_BYTES:
            return self._no(40058, "content exceed max length")
        return self._take(posted)


@dataclass
class DingTalkRobot(Robot):
    """Takes messages under its token, signed if it has a secret, with a keyword if it has one. ``now_ms`` is its own clock."""

    token: str = "57c702cdb1896282659cd07439846fd0"
    secret: str = ""
    keyword: str = ""
    now_ms: int = 0

    def answer(self, posted: Posted) -> Answered:
        """Answer one request."""
        parts = urlsplit(posted.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}
        if parts.path != "/robot/send" or query.pop("access_token", "") != self.token:
            return self._no(300001, "token is not exist")
        if fault := _shape_fault(posted):
            return self._no(40035, f"缺少参数 json: {fault}")
        if self.secret and (fault := self._signature_fault(query)):
            return self._no(310000, fault)
        if not self.secret and query:
            return self._no(310000, "sign not match")
        if self.keyword not in posted.body["text"]["content"]:
            return self._no(310000, "keywords not in content")
        return self._take(posted)

    def _signature_fault(self, query: dict[str, str]) -> str:
        if set(query) != {"timestamp", "sign"}:
            return "sign not match"
        if not query["timestamp"].isdigit() or abs(int(query["timestamp"]) - self.now_ms) > _HOUR_MS:
            return "invalid timestamp"
        wanted = hmac.new(self.secret.encode(), f"{query['timestamp']}\n{self.secret}".encode(), hashlib.sha256).digest()
        return "" if base64.b64decode(query["sign"]) == wanted else "sign not match"
