"""Which machine this is, by what a copied card does not take along: board and card, else firmware or network.

A fingerprint is a text like ``board=1f0c2d4e5a6b7c8d mac=…,…``: for each source that could be read the digests of what is there,
since a machine may have two network cards and get a third. Two fingerprints are compared source by source, so that a source that
cannot be read today says nothing; but two that have no source in common are of machines of different kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

_DIGEST_CHARACTERS = 16
_NOTHING = frozenset({"", "0", "none", "default string", "to be filled by o.e.m.", "not specified", "00:00:00:00:00:00"})


def fingerprint(*, sys_root: Path = Path("/sys"), proc_root: Path = Path("/proc")) -> str:
    """Return the fingerprint of this machine, empty where nothing of it can be read.

    Sources: the Raspberry Pi's serial number (device tree, "board") and the card's CID register (SD Physical Layer
    Specification 5.2, "card"); only without these the firmware's product UUID ("dmi", which only root can read) and the permanent
    addresses of network hardware ("mac").
    """
    parts = {
        "board": _texts([proc_root / "device-tree/serial-number"]),
        "card": _texts(sys_root.glob("block/mmcblk*/device/cid")),
    }
    if not any(parts.values()):
        parts = {"dmi": _texts([sys_root / "class/dmi/id/product_uuid"]), "mac": _macs(sys_root)}
    return _joined({source: {_digest(text) for text in texts} for source, texts in parts.items()})


def differing(known: str, now: str) -> list[str]:
    """Return the sources that speak for another machine: of those in both the ones of which nothing is the same any more, and all
    that are known when there are none in both. Empty when nothing is known of either. Network cards come and go: they count only
    where there is no firmware's word."""
    before, after = _sources(known), _sources(now)
    shared = before.keys() & after.keys()
    if not shared:
        return sorted(before.keys() | after.keys()) if before and after else []
    return sorted(source for source in shared if not before[source] & after[source] and not (source == "mac" and "dmi" in shared))


def merged(known: str, now: str) -> str:
    """Return ``known`` with the sources it lacked."""
    return _joined(_sources(now) | _sources(known))


def _sources(text: str) -> dict[str, set[str]]:
    return {source: set(digests.split(",")) for source, _, digests in (part.partition("=") for part in text.split())}


def _joined(sources: Mapping[str, set[str]]) -> str:
    return " ".join(f"{source}={','.join(sorted(digests))}" for source, digests in sorted(sources.items()) if digests)


def _macs(sys_root: Path) -> list[str]:
    """Addresses of real hardware that it came with (``addr_assign_type`` 0): bridges, tunnels and containers have none."""
    cards = (card for card in sys_root.glob("class/net/*") if (card / "device").exists())
    return _texts(card / "address" for card in cards if _text(card / "addr_assign_type", keep_zero=True) == "0")


def _texts(paths: Iterable[Path]) -> list[str]:
    found = (_text(path) for path in paths)
    return sorted(text for text in found if text)


def _text(path: Path, *, keep_zero: bool = False) -> str:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip("\x00 \n").lower()
    except OSError:
        return ""
    return "" if text in _NOTHING and not (keep_zero and text == "0") else text


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_CHARACTERS]
