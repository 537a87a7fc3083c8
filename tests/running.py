"""The command `matcha`, run inside a test."""

import pytest

from matcha_gnn import cli


def run(capsys, *arguments):
    """Exit code, standard output and standard error of `matcha ARGUMENTS`."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(a) for a in arguments])
    said = capsys.readouterr()
    return stopped.value.code, said.out, said.err


def succeeds(*arguments):
    """`matcha ARGUMENTS`, which ends well."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(a) for a in arguments])
    assert stopped.value.code == 0
