import pytest

from partyctl_confinement.errors import ConfinementError, ConfinementRefused
from partyctl_confinement.policy import resolve


@pytest.mark.parametrize("setting", [None, "none"])
def test_an_omitted_setting_and_none_run_unconfined(setting) -> None:
    assert resolve(setting) == "unconfined"


@pytest.mark.parametrize("setting", ["strict", "light"])
def test_a_guarantee_that_cannot_be_enforced_is_a_refusal_that_names_it_and_the_fix(setting) -> None:
    with pytest.raises(ConfinementRefused) as refusal:
        resolve(setting)
    assert setting in refusal.value.what
    assert "Landlock" in refusal.value.why
    assert "none" in refusal.value.fix
    assert refusal.value.whose == "caller"


@pytest.mark.parametrize("setting", ["", "Strict", "off", "unconfined"])
def test_an_unknown_setting_is_refused_with_the_known_ones(setting) -> None:
    with pytest.raises(ConfinementError, match="light, strict, none"):
        resolve(setting)
