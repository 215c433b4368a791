"""Looks whether a plant model whose values are sound makes sense here: hosts, files and places of links, limits of tags."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path

from appliance.contracts.link import Link, LinkProtocol
from appliance.contracts.tag import DataType
from appliance.settings import Settings
from appliance.settings_yaml import Key

# A label of a host name: RFC 1123, section 2.1; 63 characters by RFC 1035. A last label of digits alone is a mistyped address.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*(?![0-9]+\.?\Z){_LABEL}\.?", re.ASCII)

SenseFault = tuple[Key, str, str]
"""Key of ``plant.yaml``, what is wrong there, and its cure."""


def sense_faults(settings: Settings) -> Iterator[SenseFault]:
    """Yield hosts that can be none, files of links that are missing, links that lead where another one does, and limits beyond
    what a tag's registers can hold."""
    yield from _link_faults(settings.plant.links)
    for index, tag in enumerate(settings.plant.tags):
        if tag.type in (DataType.BOOL, DataType.STRING):
            continue
        for name, limit in (("low", tag.low), ("high", tag.high)):
            if limit is not None and not tag.can_hold(limit):
                lowest, highest = tag.range
                what = f"{limit:g} is beyond what {tag.key} can hold: {tag.type} with this scale and offset"
                yield ("tags", index, name), what, f"Write a limit between {lowest:.15g} and {highest:.15g}."


def _link_faults(links: Sequence[Link]) -> Iterator[SenseFault]:
    places: dict[tuple[str, str], str] = {}
    for index, link in enumerate(links):
        if link.host is not None and not _is_host(link.host):
            what = f"{link.host!r} is neither an IP address nor a host name"
            yield ("links", index, "host"), what, "Write only the address or name, without scheme, port or space."
        for name, path in _files(link):
            if _is_missing(path):
                yield ("links", index, "tls", name), f"{path} is missing", "Put the file there, or name another."
        if (other := places.setdefault(_place(link), link.id)) != link.id:
            cure = "Make them one link: a link may have many devices."
            yield ("links", index), f"link {link.id} leads to {link.where} as link {other} does", cure


def _files(link: Link) -> Iterator[tuple[str, Path]]:
    if link.tls is not None:
        named = {"ca": link.tls.ca, "cert": link.tls.cert, "key": link.tls.key}
        yield from ((name, path) for name, path in named.items() if path is not None)


def _is_missing(path: Path) -> bool:
    """Whether it is known to be no file; what one may not look at may be one, for the service's user."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        return False
    except OSError:
        return True


def _is_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True


def _place(link: Link) -> tuple[str, str]:
    transport = "serial" if link.serial else "udp" if link.protocol is LinkProtocol.UDP else "tcp"
    return transport, link.where if link.serial else link.where.lower()
