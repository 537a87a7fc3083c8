from importlib.metadata import EntryPoint

import pytest

from matcha_gnn import registry
from matcha_gnn.errors import InvalidArgumentError

GROUP = "matcha_gnn.methods"


@pytest.fixture
def offer(monkeypatch):
    """Pretend that installed packages offer these classes."""

    def offered(**points):
        made = [EntryPoint(name, value, GROUP) for name, value in points.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: made)

    return offered


def test_offered_classes_are_found_beside_built_in_ones(offer):
    offer(fraction="fractions:Fraction")
    found = registry.resolve_installed("--method", "fraction", {"erm": 1}, GROUP)
    assert found.__name__ == "Fraction"
    assert registry.resolve_installed("--method", "erm", {"erm": 1}, GROUP) == 1


def test_a_built_in_name_cannot_be_taken(offer):
    offer(erm="fractions:Fraction")
    assert registry.resolve_installed("--method", "erm", {"erm": 1}, GROUP) == 1


def test_a_package_that_does_not_import_is_named_and_harms_nobody_else(offer):
    offer(broken="no_such_module:Method")
    assert registry.resolve_installed("--method", "erm", {"erm": 1}, GROUP) == 1
    with pytest.raises(InvalidArgumentError, match="no_such_module:Method cannot be imported"):
        registry.resolve_installed("--method", "broken", {"erm": 1}, GROUP)


def test_unknown_names_list_offered_ones_too(offer):
    offer(fraction="fractions:Fraction")
    with pytest.raises(InvalidArgumentError, match="allowed: erm, fraction"):
        registry.resolve_installed("--method", "other", {"erm": 1}, GROUP)
