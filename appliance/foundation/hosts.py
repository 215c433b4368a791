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


def url_faults(
    url: str,
    *,
    name: str = "url",
    path: str = "",
    has_query: bool = False,
    allow_plain: bool | None = None,
    allowed: Collection[str] | None = None,
) -> list[str]:
    """Return what speaks against sending secrets to ``url``, each with its cure; nothing when it may be asked. None quotes it, as
    a password may be part of it.

    ``name`` is how the setting is called, ``path`` how a message spells what follows the host, which ``has_query`` may end.
    ``allow_plain`` and ``allowed``, unroutable addresses that a site has all the same, are None where there is no such setting.
    """
    form = f"https://HOST[:PORT]{path}"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return [f"{name} cannot be read as an address; it looks like {form}"]
    faults = []
    if parts.scheme not in ("https", "http") or not host:
        faults.append(f"{name} must look like {form}")
    elif parts.scheme == "http" and not is_loopback(host) and not allow_plain:
        cure = "write https" if allow_plain is None else "write https, or set allow_plain"
        faults.append(f"{name}: only https leaves this machine; {cure}")
    if is_unroutable(host) and _address(host) not in {_address(each) for each in allowed or ()}:
        cure = "write the one it has on the site's network" if allowed is None else "name it in allow_addresses if it is"
        faults.append(f"{name}: {host} is no address of a service; {cure}")
    if parts.username is not None or parts.fragment:
        faults.append(f"{name}: no user and no fragment; the token has its own key")
    if "?" in url and not has_query:
        faults.append(f"{name}: no query; end it before the ?")
    return faults


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address; one of IPv4 that is written as one of IPv6 leads where it leads."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address
