"""Whatever the rules of a site say: nothing overrides the hard floor, and nothing a deny rule (X2)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.contracts.approval import Decision, Rule
from appliance.contracts.principal import AccessLevel, Identification, Principal
from appliance.contracts.tool import ToolContract
from appliance.execution.approval.rulebook import Case, Rulebook
from appliance.execution.approval.settings import ApprovalRules, ApprovalSettings, CallRule, WriteRule
from appliance.settings_rules import shipped_contracts
from tests.support.clock import ManualClock
from tests.support.planning import shipped_plant
from tests.support.plans import phrasing

pytestmark = pytest.mark.req("X2")

TOOLS = ("write_tag", "shelve_alarm", "create_work_order", "acknowledge_alarm", "read_tags", "say", "write_report")
KEYS = tuple(shipped_plant().tag_by_key)
PATTERNS = ("*", "motor_3.*", "write_*", "motor_3", *TOOLS, *KEYS)
ROLES = ("visitor", "operator", "engineer")
MIGRATIONS = Path(__file__).parents[2] / "appliance" / "store" / "migrations"

rule = st.builds(
    CallRule,
    tools=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2),
    subjects=st.lists(st.sampled_from(PATTERNS), max_size=1),
    roles=st.lists(st.sampled_from(ROLES), max_size=1),
)
few = st.lists(rule, max_size=3)
lists = st.builds(ApprovalRules, deny=few, unattended=few, ask=few, allow=few)
writes = st.lists(
    st.builds(
        WriteRule,
        tags=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2),
        access=st.sampled_from(("operator", "critical")),
    ),
    max_size=2,
)
value = st.one_of(st.integers(-50, 200), st.floats(allow_nan=True), st.booleans(), st.text(max_size=5))
arguments = st.fixed_dictionaries({"key": st.sampled_from((*KEYS, "no.such")), "value": value, "what": st.just("x")})
level = st.sampled_from(list(AccessLevel))


def contract(name: str) -> ToolContract:
    return shipped_contracts()[name]


def ledger() -> sqlite3.Connection:
    """An empty ledger, as far as deciding looks into it."""
    tx = sqlite3.connect(":memory:")
    tx.row_factory = sqlite3.Row
    sql = (MIGRATIONS / "0008_agent.sql").read_text("utf-8")
    table = sql[sql.index("CREATE TABLE approval") : sql.index("-- A check somebody asked for")]
    tx.executescript(table + "CREATE TABLE effect (action_id TEXT, status TEXT);")
    return tx


TX = ledger()


@settings(max_examples=400, deadline=None)
@given(
    lists, writes, st.sampled_from(TOOLS), arguments, level, st.sampled_from(ROLES), st.booleans(), st.booleans(), st.booleans()
)  # fmt: skip
def test_nothing_overrides_the_hard_floor_or_a_deny(
    rules: ApprovalRules, write_rules: list[WriteRule], tool: str, given_arguments: dict[str, Any], who: AccessLevel, role: str,
    unattended: bool, of_model: bool, planning: bool,
) -> None:  # fmt: skip
    site = ApprovalSettings(rules, write_rules)
    book = Rulebook(site, shipped_plant(), phrasing(shipped_plant()), ManualClock())
    own = contract(tool)
    key = given_arguments["key"]
    needed = max(own.security.access_level, site.level_of(key) if tool == "write_tag" else AccessLevel.PUBLIC)
    principal = Principal("x", Identification.TOKEN, role, who)
    case = Case(own, needed, given_arguments, principal, "en", "s", "a", is_unattended=unattended, is_of_model=of_model)
    verdict = book.judge(TX, case, may_ask=planning)

    if needed > who:
        assert (verdict.decision, verdict.rule) == (Decision.DENY, Rule.HARD_FLOOR)
        assert verdict.is_hidden == (own.security.access_level > who)
        return
    tag = shipped_plant().tag_by_key.get(key)
    if tool == "write_tag" and not may_be_written(tag, given_arguments["value"]):
        assert (verdict.decision, verdict.rule) == (Decision.DENY, Rule.HARD_FLOOR)
        return
    subjects = [name for thing in book.about(case).things for name in thing]
    if any(each.matches(tool, subjects, role) for each in rules.deny):
        assert (verdict.decision, verdict.rule) == (Decision.DENY, Rule.DENY)
        return
    if own.changes_something and (of_model or needed is AccessLevel.CRITICAL):
        assert verdict.decision is (Decision.DENY if unattended else Decision.ASK)
        assert verdict.needs_code == (needed is AccessLevel.CRITICAL and not unattended)
    if unattended:
        assert verdict.decision is not Decision.ASK
    if verdict.decision is Decision.ALLOW and own.changes_something:
        permitting = rules.unattended if verdict.rule is Rule.UNATTENDED else rules.allow
        assert any(each.matches(tool, subjects, role) for each in permitting)
    if verdict.decision is Decision.DENY:
        assert verdict.why


def may_be_written(tag: Any, wanted: Any) -> bool:
    """Said once more, in other words than the product's."""
    if tag is None or not tag.writable:
        return False
    if tag.type == "bool":
        return wanted is True or wanted is False
    return type(wanted) in (int, float) and wanted == wanted and wanted - tag.low >= 0 and tag.high - wanted >= 0
