"""Certificates made for a test: an authority, and what it signs."""

from __future__ import annotations

import asyncio
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_ADDRESS = "subjectAltName=IP:127.0.0.1"


async def self_signed(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that vouches for itself, or for others; return it and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    await _openssl("req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", "-addext", _ADDRESS, "-keyout", key, "-out", cert)
    return cert, key


async def signed_by(authority: tuple[Path, Path], folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 and the user ``name`` that ``authority`` vouches for; return it and its key."""
    cert, key, request, extensions = (folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
    extensions.write_text(_ADDRESS, encoding="ascii")
    await _openssl("req", "-new", *_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    await _openssl(
        "x509", "-req", "-in", request, "-CA", authority[0], "-CAkey", authority[1], "-CAcreateserial", "-days", "2",
        "-extfile", extensions, "-out", cert,
    )  # fmt: skip
    return cert, key


async def _openssl(*arguments: str | Path) -> None:
    making = await asyncio.create_subprocess_exec("openssl", *map(str, arguments), stderr=asyncio.subprocess.DEVNULL)
    assert await making.wait() == 0
