"""Every error of the package: its family, its one line, and its way across processes."""

import pickle

import pytest

from matcha_gnn import errors
from matcha_gnn.errors import (
    DistributedError,
    IncompatibleError,
    InvalidArgumentError,
    InvalidFileError,
    InvalidGraphError,
    MatchaError,
    NoEvidenceError,
    NonFiniteError,
    NotAdaptedWarning,
)

WITH_PARTS = [InvalidArgumentError, InvalidGraphError, InvalidFileError]
ABOUT_INPUT = [*WITH_PARTS, IncompatibleError, NonFiniteError, NoEvidenceError]


def test_the_lists_above_name_every_error_of_the_module():
    found = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)}
    assert found == {MatchaError, DistributedError, NotAdaptedWarning, *ABOUT_INPUT}
    assert issubclass(NotAdaptedWarning, UserWarning)


@pytest.mark.parametrize("kind", ABOUT_INPUT)
def test_input_errors_are_value_errors_and_of_this_package(kind):
    assert issubclass(kind, ValueError)
    assert issubclass(kind, MatchaError)


@pytest.mark.parametrize("kind", WITH_PARTS)
def test_the_line_names_argument_value_and_what_is_allowed(kind):
    assert str(kind("epochs", -1, "an integer >= 0")) == "epochs: got -1; allowed: an integer >= 0"


@pytest.mark.parametrize("kind", WITH_PARTS)
def test_parts_are_kept_for_programs(kind):
    error = kind("epochs", -1, "an integer >= 0")
    assert (error.argument, error.got, error.allowed) == ("epochs", -1, "an integer >= 0")


@pytest.mark.parametrize("kind", WITH_PARTS)
def test_survives_pickling_as_between_worker_processes(kind):
    error = kind("epochs", -1, "an integer >= 0")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.argument, copy.got, copy.allowed) == (error.argument, error.got, error.allowed)
