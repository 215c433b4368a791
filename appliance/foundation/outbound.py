"""What requests that leave this machine share: the token, whom TLS trusts, where they may lead, when to try again (X6)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Collection
from email.utils import parsedate_to_datetime
from pathlib import Path

from appliance.contracts.errors import Refused, Unavailable
from appliance.foundation.hosts import is_loopback, is_unroutable

_LONGEST_RETRY_AFTER_S = 600.0  # whoever is asked to wait for longer looks again after this


def read_token(token: str, token_file: Path | None) -> str:
    """Return the token, from its file when there is one.

    Raises:
        Refused: the file cannot be read, or others can, or it holds what can be no token.
    """
    if token_file is None:
        return token
    try:
        if token_file.stat().st_mode & 0o077:
            raise Refused(f"{token_file} can be read by others; run: chmod 600 {token_file}", reason="token_file")
        held = token_file.read_text(encoding="latin-1").strip()
        if not (held.isascii() and held.isprintable()):  # RFC 6750, section 2.1; a header takes nothing else
            raise Refused(f"{token_file} does not hold a token; write it anew", reason="token_file")
        return held
    except OSError as error:
        raise Refused(f"the token cannot be read from {token_file}: {error.strerror}", reason="token_file") from error


def tls_context(url: str, ca_file: Path | None) -> ssl.SSLContext:
    """Return what certificates are verified with: the site's own authority alone, or those of the system.

    Raises:
        Refused: the file is no usable certificate.
    """
    if url.startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used, and trusts nobody
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one too
        raise Refused(f"{ca_file} is no usable certificate file: {error}", reason="ca_file") from error


async def addresses_of(host: str, port: int, *, allowed: Collection[str] = (), is_plain: bool = False) -> list[str]:
    """Look a host up and return the addresses to connect to, checked; connect to these and look it up no second time.

    ``allowed`` are addresses that may be connected to although no service of a site has them. With ``is_plain`` the host was
    taken for this machine by its name, and must be.

    Raises:
        Unavailable: the name is not known now.
        Refused: it leads to link-local or other addresses that only somebody who tricks us would name.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a name may be none that can be looked up
        raise Unavailable(f"{host} cannot be looked up: {getattr(error, 'strerror', None) or error}") from error
    addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    known = {ipaddress.ip_address(each) for each in allowed}
    bad = [each for each in addresses if is_unroutable(each) and ipaddress.ip_address(each) not in known]
    bad += [each for each in addresses if is_plain and not is_loopback(each)]
    if bad:
        raise Refused(f"{host} leads to {bad[0]}, which is no address of a service", reason="address", address=bad[0])
    return addresses


def retry_after_s(header: str, date: str = "") -> float:
    """Read Retry-After in s, at most 600; 0 without one, or if it means nothing.

    Its date form is told by the server's clock, so it is read against the server's own ``date`` header only: this machine's
    clock may be wrong.
    """
    if header.isascii() and header.isdigit():
        return min(float(header), _LONGEST_RETRY_AFTER_S)
    try:
        left_s = (parsedate_to_datetime(header) - parsedate_to_datetime(date)).total_seconds()
    except (ValueError, TypeError, OverflowError):  # no date, one with a zone and one without, a zone of a million years
        return 0.0
    return min(max(left_s, 0.0), _LONGEST_RETRY_AFTER_S)
