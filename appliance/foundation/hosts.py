"""What a host name says about where it leads."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether ``host`` leads to this machine only: ``localhost``, 127.0.0.0/8 or ::1. Names are not resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_unroutable(host: str) -> bool:
    """Return whether ``host`` is an address no service of a site has: link-local (cloud metadata), multicast, unspecified."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_link_local or address.is_multicast or address.is_unspecified
