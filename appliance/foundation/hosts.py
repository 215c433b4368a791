"""What a host name says about where it leads."""

from __future__ import annotations

import ipaddress

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


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Read an address; one of IPv4 that is written as one of IPv6 leads where it leads."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address
