"""Who may do what, as the site writes it down."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from appliance.access.settings import AccessSettings
from appliance.contracts.principal import AccessLevel, Identification
from appliance.intake.console_door import TYPIST
from appliance.intake.voice_door import SPEAKER
from appliance.settings import load_settings
from appliance.settings_faults import ConfigFaults

pytestmark = pytest.mark.req("T3", "O5")

SHIPPED = Path(__file__).parents[2] / "config"


def with_access(tmp_path: Path, access: str) -> Path:
    folder = shutil.copytree(SHIPPED, tmp_path / "config")
    policies = (folder / "policies.yaml").read_text(encoding="utf-8")
    (folder / "policies.yaml").write_text(policies.partition("\naccess:")[0] + f"\naccess:\n{access}\n", encoding="utf-8")
    return folder


def test_what_is_shipped_is_what_holds_without_it() -> None:
    shipped = load_settings(SHIPPED, {}).access
    assert shipped == AccessSettings()
    assert shipped.who_speaks() == SPEAKER and shipped.who_types() == TYPIST
    assert [shipped.level_of(role) for role in ("visitor", "staff", "operator", "engineer")] == list(AccessLevel)
    assert shipped.level_of("nobody") is None


@pytest.mark.req("X5")
def test_a_voice_has_a_role_and_identifies_nobody(tmp_path: Path) -> None:
    access = load_settings(with_access(tmp_path, "  voice: visitor\n  console: engineer"), {}).access
    speaks, types = access.who_speaks(), access.who_types()
    assert (speaks.identified, speaks.level, speaks.by) == (Identification.VOICE, AccessLevel.PUBLIC, "voice")
    assert (types.identified, types.level, types.role) == (Identification.SOCKET, AccessLevel.CRITICAL, "engineer")


@pytest.mark.parametrize(
    ("access", "says"),
    [
        ("  voice: operater", "voice: there is no role 'operater'. Did you mean 'operator'?"),
        ("  console: boss", "console: there is no role 'boss'. Roles here: engineer, operator, staff, visitor."),
        ("  roles: {worker: operator}", "voice: there is no role 'operator'. Roles here: worker."),
        ("  roles: {operator: admin}", "'public', 'internal', 'operator' or 'critical'"),
        ("  roles: {Operator: operator}", "should match pattern"),
        ("  roles: {}", "at least 1"),
        ("  role: {}", "Did you mean 'roles'?"),
    ],
)
def test_a_mistake_is_named_with_what_was_meant(tmp_path: Path, access: str, says: str) -> None:
    with pytest.raises(ConfigFaults) as caught:
        load_settings(with_access(tmp_path, access), {})
    assert says in caught.value.message and "policies.yaml" in caught.value.message and "access" in caught.value.message
