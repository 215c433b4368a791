"""What a host name says about where it leads."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

_METADATA = frozenset(
    ipaddress.ip_address(each)
    for each in ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")  # EC2, Alibaba, Azure, Oracle
)
"""Where clouds tell a machine its secrets, besides the link-local address that most of them use."""


def is_loopback(host: str) -> bool:
    """Return whether ``host`` leads to this machine only: ``localhost``, 127.0.0.0/8 or ::1. Names are not resolved."""
    if host == "localhost":
        return True
    try:
        return _address(host).is_loopback
    except ValueError:
        return False


def is_unroutable(host: str) -> bool:
    """Return whether ``host`` is an address no service of a site has: link-local, cloud metadata, multicast, unspecified."""
    try:
        address = _address(host)
    except ValueError:
        return False
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA


def url_faults(url: str, *, allow_plain: bool, allowed: Collection[str] = (), path: str = "/PATH") -> list[str]:
    """Return what speaks against sending secrets to ``url``, each with its cure; nothing when it may be asked.

    ``allowed`` are unroutable addresses that a site has all the same. ``path`` is how the message spells what follows the host.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:  # whose message would quote the address, and a key may be part of it
        return ["url cannot be read as an address"]
    faults = []
    if parts.scheme not in ("https", "http") or not host:
        faults.append(f"url must look like https://HOST[:PORT]{path}")
    elif parts.scheme == "http" and not is_loopback(host) and not allow_plain:
        faults.append("url: only https leaves this machine, unless allow_plain is true")
    if is_unroutable(host) and _address(host) not in {_address(each) for each in allowed}:
        faults.append(f"url: {host} is no address of a service; name it in allow_addresses if it is")
    if parts.username is not None or parts.fragment:
        faults.append("url: no user and no fragment; the token has its own key")
    return faults


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address; one of IPv4 that is written as one of IPv6 leads where it leads."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address
