"""What the local API may ask about playbooks: which are in use, where they are from, and that edits are taken up (L5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class PlaybookActs(Protocol):
    """The playbooks in use, and the folder they were read from. Answers are JSON."""

    async def playbooks(self) -> Sequence[Mapping[str, Any]]:
        """Return by name those in use, and those in the folder that are not: ``{name, description, access, faults, names,
        phrases, source, why}``. ``source`` says whether it is as shipped; ``why``, what of its folder is not in use, empty when
        all is."""
        ...

    async def playbook(self, name: str) -> Mapping[str, Any]:
        """Return one with its folder, languages, parameters, steps, and page for people.

        Raises:
            Refused: there is none of this name.
        """
        ...

    async def take_up(self, by: str) -> Mapping[str, Any]:
        """Have what is in the folder now take the place of what is in use, all or nothing; return ``{commit, changed, folder}``:
        ``changed`` maps names to ``new``, ``changed`` or ``gone``. What a session's model was shown does not change under it.

        Raises:
            ConfigError: naming every fault of every playbook; what was in use goes on.
            Unavailable: the folder or git cannot be used; what was in use goes on.
        """
        ...
