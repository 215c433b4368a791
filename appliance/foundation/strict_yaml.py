"""The one reader of YAML: mappings, lists, texts, numbers, true, false and null, and a line for whatever else is there.

What YAML would take silently is a fault: a key that is given twice (it keeps the last), a number that begins with a zero (it is
octal), a value that contains itself, tags that make other things of a value. Days and times stay the texts they were written as,
so ``2026-02-30`` is whatever its reader makes of that text; keys are texts. Anchors are understood, merge keys are not.
"""

from __future__ import annotations

from typing import Any

import yaml

from appliance.contracts.errors import ConfigError
from appliance.foundation.yaml_octal import octal_fault

_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, and a plant may have thousands of tags
_LONGEST = 16_000_000  # characters: a plant of 10,000 tags has 4 million
_DEEPEST = 40  # far beyond any file of ours; below what a reader of models can follow
_MOST_REPEATED = 20_000  # values that aliases stand for: nine anchors of ten aliases each would be a thousand million
_LONGEST_NUMBER = 60  # digits; no register and no counter has more than 20

_TAG = "tag:yaml.org,2002:"
_AS_WRITTEN = frozenset({f"{_TAG}{kind}" for kind in ("str", "timestamp", "merge", "value")})
_NUMBERS = frozenset({f"{_TAG}int", f"{_TAG}float"})
_WORDS = frozenset({f"{_TAG}bool", f"{_TAG}null"})
_SCALARS = yaml.SafeLoader("")


class YamlFault(yaml.MarkedYAMLError):
    """One fault of a text: ``problem``, ``problem_mark`` and, as ``note``, the cure."""

    def __init__(self, problem: str, mark: Any, cure: str) -> None:
        super().__init__(problem=problem, problem_mark=mark, note=cure)


def read_yaml(text: str, file: str, *, above: int = 0) -> Any:
    """Return what ``text`` holds, None for nothing. ``file`` is only named in errors, ``above`` the lines it has before.

    Raises:
        ConfigError: it is no YAML of ours; the key is the line.
    """
    try:
        node = compose(text)
        return None if node is None else _value(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"line {mark.line + 1 + above}" if mark else "(file)"
        if isinstance(error, YamlFault):
            raise ConfigError(str(error.problem), file=file, key=where, cure=str(error.note)) from error
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "bad syntax"
        raise ConfigError(f"not YAML: {problem}", file=file, key=where, cure="Correct the syntax there.") from error


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of ``text``, none nested deeper than a reader can follow and none within itself; None for nothing.

    Raises:
        yaml.YAMLError: it is no YAML, or :class:`YamlFault`.
    """
    if len(text) > _LONGEST:
        raise YamlFault(f"has {len(text)} characters", None, f"Write at most {_LONGEST}.")
    if (lone := next((at for at, each in enumerate(text) if "\ud800" <= each <= "\udfff"), None)) is not None:
        raise YamlFault(f"character {lone + 1} is half of one", None, "Save the file as UTF-8.")
    _check_shape(text)
    node: yaml.Node | None = yaml.compose(text, Loader=_FAST)
    return node


def scalar(node: yaml.Node) -> Any:
    """Return the value of a node that is neither a mapping nor a list.

    Raises:
        YamlFault: it is none YAML understands, or one it would take for another. Nothing but octal numbers is quoted.
    """
    if not isinstance(node, yaml.ScalarNode):
        raise YamlFault("has a tag", node.start_mark, "Leave the tag out: values are what they look like.")
    written = str(node.value)
    if node.tag in _AS_WRITTEN:
        return written
    if (octal := octal_fault(node)) is not None:
        raise YamlFault(octal[0], node.start_mark, octal[1])
    if node.tag in _NUMBERS:
        if ":" in written:  # 12:30 would be 750
            return written
        if len(written) > _LONGEST_NUMBER:
            raise YamlFault(f"a number has {len(written)} digits", node.start_mark, f"Write at most {_LONGEST_NUMBER}.")
    elif node.tag not in _WORDS:
        raise YamlFault("has a tag", node.start_mark, "Leave the tag out: values are what they look like.")
    try:
        return _SCALARS.construct_object(yaml.ScalarNode(node.tag, written))
    except (yaml.YAMLError, ValueError, KeyError) as error:
        raise YamlFault("is not a value YAML understands", node.start_mark, "Put the value in quotes.") from error


def _check_shape(text: str) -> None:
    """Look at the depth of a text, and at what its aliases stand for, before anything is built of it."""
    opened: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    values = repeated = 0
    for event in yaml.parse(text, Loader=_FAST):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            values += 1
            if len(opened) > _DEEPEST:
                raise YamlFault("is nested too deeply", event.start_mark, f"Nest at most {_DEEPEST} deep.")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in opened):
                raise YamlFault("an anchor contains itself", event.start_mark, "Write the values out.")
            stands_for = sizes.get(str(event.anchor), 1)
            values, repeated = values + stands_for, repeated + stands_for
            if repeated > _MOST_REPEATED:
                raise YamlFault(f"aliases stand for more than {_MOST_REPEATED} values", event.start_mark, "Write fewer of them.")
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
        return _mapping(node)
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
        return [_value(each) for each in node.value]
    return scalar(node)


def _mapping(node: yaml.MappingNode) -> dict[str, Any]:
    built: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlFault("a key is not a plain word", key_node.start_mark, "Write keys as words.")
        if (octal := octal_fault(key_node)) is not None:
            raise YamlFault(octal[0], key_node.start_mark, octal[1])
        key = str(key_node.value)
        if key in built:
            raise YamlFault(f"{key} is given twice, first in line {lines[key]}", key_node.start_mark, "Keep one of the two.")
        lines[key] = key_node.start_mark.line + 1
        built[key] = _value(value_node)
    return built
