"""Every error of the package: its family, its one line, and its way across processes."""

import pickle

import pytest

import matcha_gnn as mg
from matcha_gnn import errors
from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    InvalidFileError,
    InvalidGraphError,
    MatchaError,
    NoEvidenceError,
    NonFiniteError,
    NotAdaptedWarning,
)
from matcha_gnn.gamma.testing import tiny_graph

WITH_PARTS = [InvalidArgumentError, InvalidGraphError, InvalidFileError]
ABOUT_INPUT = [*WITH_PARTS, IncompatibleError, NonFiniteError, NoEvidenceError]


def test_the_lists_above_name_every_error_of_the_module():
    found = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)}
    assert found == {MatchaError, NotAdaptedWarning, *ABOUT_INPUT}
    assert issubclass(NotAdaptedWarning, UserWarning)


@pytest.mark.parametrize("kind", ABOUT_INPUT)
def test_input_errors_are_value_errors_and_of_this_package(kind):
    assert issubclass(kind, ValueError)
    assert issubclass(kind, MatchaError)


@pytest.mark.parametrize("kind", WITH_PARTS)
def test_the_line_names_argument_value_and_what_is_allowed(kind):
    assert str(kind("epochs", -1, "an integer >= 0")) == "epochs: got -1; allowed: an integer >= 0"


@pytest.mark.parametrize("kind", WITH_PARTS)
def test_survives_pickling_as_between_worker_processes(kind):
    error = kind("epochs", -1, "an integer >= 0")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.argument, copy.got, copy.allowed) == (error.argument, error.got, error.allowed)


@pytest.mark.parametrize("value", [2**31, 10**20])
def test_counts_that_would_never_end_are_refused(value):
    for call in (
        lambda: mg.fit(mg.GPRGNN(6, 3), tiny_graph(), epochs=value),
        lambda: mg.GPRGNN(6, 3, K=value),
        lambda: mg.GPRGNN(6, 3, hidden_channels=value),
        lambda: mg.Matcha(rounds=value),
        lambda: mg.T3A(k=value),
    ):
        with pytest.raises(mg.InvalidArgumentError, match=str(value)):
            call()
    assert mg.datasets.csbm(20, 4, seed=value % 2**63).num_nodes == 20
