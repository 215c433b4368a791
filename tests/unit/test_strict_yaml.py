"""The one reader of YAML: what it takes, and that everything else is a fault with a line."""

from __future__ import annotations

import pytest

from appliance.contracts.errors import ConfigError
from appliance.foundation.strict_yaml import read_yaml

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("day: 2026-02-30", {"day": "2026-02-30"}),
        ("[2026-01-05, 12:30, 1:30:45.5]", ["2026-01-05", "12:30", "1:30:45.5"]),
        ("{no: yes, 1: 0x10, ~: null, k: '007'}", {"no": True, "1": 16, "~": None, "k": "007"}),
        ("a: &a [1, 2.5]\nb: *a", {"a": [1, 2.5], "b": [1, 2.5]}),
    ],
)
def test_what_is_written_is_read(text: str, value: object) -> None:
    assert read_yaml(text, "f.yaml") == value


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: 2\na: 3", 3, "a is given twice, first in line 1"),
        ("a:\n  b: 0017", 2, "begins with a zero"),
        ("- 1\n- " + "9" * 5_000, 2, "a number has 5000 digits"),
        ("steps: " + "[" * 3_000 + "]" * 3_000, 1, "nest"),
        ("a: " + "{b: " * 60 + "1" + "}" * 60, 1, "nested too deeply"),
        ("\na: &z {k: *z}", 2, "an anchor contains itself"),
        (LAUGHS, 5, "aliases stand for more than"),
        ("a: 1\nb: !!python/object/apply:os.system [id]", 2, "has a tag"),
        ("a: !!binary x", 1, "has a tag"),
        ("a: !!bool maybe", 1, "is not a value YAML understands"),
        ("? [1]\n: 2", 1, "a key is not a plain word"),
        ("a: 1\n--- \nb: 2", 2, "not YAML"),
        ("a: [", 2, "not YAML"),
        ('a: "\\uD800"', 1, "not YAML"),
        ("a: *b", 1, "not YAML"),
    ],
)
def test_what_yaml_would_take_silently_or_fall_over_is_a_fault_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "f.yaml")
    assert (caught.value.file, caught.value.key) == ("f.yaml", f"line {line}")
    assert what in caught.value.message


@pytest.mark.parametrize("text", ["a: \x00", "a: \ud800"])
def test_characters_that_no_file_may_hold_are_faults(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "f.yaml", above=3)
    assert caught.value.key == "(file)"


def test_a_line_counts_from_the_beginning_of_its_file() -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml("a: 1\na: 2", "f.md", above=1)
    assert caught.value.key == "line 3"
