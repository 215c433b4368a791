"""Reads one YAML file: where each key stands, variables of the environment put in. Nothing is validated here.

A narrow YAML: mappings, lists and scalars. Anchors are understood; merge keys and tags are not. A key given twice is a fault,
because YAML itself would silently keep the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from appliance.contracts.errors import ConfigError
from appliance.foundation.strict_yaml import YamlFault, compose, scalar
from appliance.foundation.yaml_octal import octal_fault

Key = tuple[str | int, ...]

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")
_SECRET_NAME = re.compile(r"PASSWORD|TOKEN|SECRET|CREDENTIAL|PRIVATE|API_?KEY", re.IGNORECASE)
_SHORTEST_SECRET = 4  # replacing shorter texts would blank out ordinary words of a message
_GIVEN_EMPTY = object()


@dataclass(slots=True)
class Document:
    """One file as read. ``lines`` maps a key path to its 1-based line; ``secrets`` are injected values never to be shown."""

    file: str
    tree: Any = None
    lines: dict[Key, int] = field(default_factory=dict)
    faults: list[ConfigError] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)

    def fault(self, key: Key, message: str, cure: str) -> None:
        """Note a fault at ``key``, with its line and without any secret."""
        self.faults.append(ConfigError(self._safe(message), file=self._place(key), key=spell(key), cure=self._safe(cure)))

    def _place(self, key: Key) -> str:
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.file}:{self.lines[key]}" if key in self.lines else self.file

    def _safe(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def spell(key: Key) -> str:
    """Write a key path as people do: ``links[0].port``; the whole file is ``(file)``."""
    spelled = ""
    for part in key:
        spelled += f"[{part}]" if isinstance(part, int) else f".{part}" if spelled else part
    return spelled or "(file)"


def read_document(path: Path, environ: Mapping[str, str]) -> Document:
    """Read ``path``. Faults are collected in the document, never raised; an empty file is an empty mapping."""
    document = Document(path.name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        document.fault((), "does not exist", f"Create {path}, or point FLOORHAND_CONFIG at the folder that holds it.")
        return document
    except UnicodeDecodeError as error:
        document.fault((), f"is not UTF-8 (byte {error.start})", "Save the file as UTF-8.")
        return document
    except OSError as error:
        document.fault((), f"cannot be read: {error.strerror}", f"Check the permissions of {path}.")
        return document
    try:
        node = compose(text)
    except YamlFault as error:
        document.lines[()] = error.problem_mark.line + 1 if error.problem_mark else 1
        document.fault((), str(error.problem), str(error.note))
        return document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.lines[()] = mark.line + 1 if mark else 1
        document.fault((), _syntax_words(error), "Correct the YAML at this line or the one above it.")
        return document
    except yaml.YAMLError:
        document.fault((), "holds a character that YAML forbids", "Save the file as plain UTF-8 text.")
        return document
    document.tree = {} if node is None else _Reader(document, environ).build(node, ())
    return document


def _syntax_words(error: yaml.MarkedYAMLError) -> str:
    """Say what is wrong without quoting the file: the text at the mark may be a secret."""
    problem = error.problem or "not YAML"
    if "undefined alias" in problem:
        problem = "a value begins with * and names no anchor; put it in quotes"
    return f"not valid YAML: {problem}"


class _Reader:
    """Turns nodes into plain values and puts variables in."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ

    def build(self, node: yaml.Node, key: Key) -> Any:
        """Return the plain value of ``node``."""
        self._document.lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self._kept(self.build(each, (*key, index))) for index, each in enumerate(node.value)]
        return self._scalar(node, key)

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                self._document.fault(key, "has a key that is not a plain word", "Write keys as words.")
                continue
            name = str(name_node.value)
            self._document.lines[(*key, name)] = name_node.start_mark.line + 1
            self._is_octal(name_node, (*key, name))
            if name in built:
                self._document.fault((*key, name), "is given twice", "Keep one of the two.")
            value = self.build(value_node, (*key, name))
            if value is not _GIVEN_EMPTY:  # an empty variable means: as if the key were not written
                built[name] = value
        return built

    @staticmethod
    def _kept(value: Any) -> Any:
        return "" if value is _GIVEN_EMPTY else value

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        if isinstance(node.value, str) and "${" in node.value:
            injected = self._inject(node.value, key)
            is_alone = _REFERENCE.fullmatch(node.value) is not None
            return _GIVEN_EMPTY if is_alone and not injected else injected
        if self._is_octal(node, key):
            return int(node.value.replace("_", ""), 10)  # what was meant, so that it is no second fault
        try:
            return scalar(node)
        except YamlFault as error:
            self._document.fault(key, str(error.problem), str(error.note))
            return None

    def _is_octal(self, node: yaml.Node, key: Key) -> bool:
        fault = octal_fault(node)
        if fault is not None:
            if _SECRET_NAME.search(spell(key)):
                self._document.secrets.add(str(node.value))
            self._document.fault(key, *fault)
        return fault is not None

    def _inject(self, text: str, key: Key) -> str:
        def replacement(found: re.Match[str]) -> str:
            if found["broken"]:
                self._document.fault(
                    key, "has a ${ that is no variable", "Write ${NAME}, ${NAME:-default}, or $${ for a plain ${."
                )
                return ""
            name, default = found["name"], found["default"]
            if name is None:
                return "${"
            value = self._environ.get(name, "")
            if value and len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
                self._document.secrets.add(value)
            if value or (default is None and name in self._environ):
                return value
            if default is None:
                self._document.fault(
                    key, f"the environment variable {name} is not set", f"Set {name}, or write ${{{name}:-default}} here."
                )
                return ""
            return default

        return _REFERENCE.sub(replacement, text)
