"""Probabilities from files of other programs, in the order of the nodes."""

import numpy as np
import pytest

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.probabilities import read_probs

PROBS = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])


def test_every_kind_of_file_gives_the_same_rows(tmp_path):
    np.save(tmp_path / "p.npy", PROBS)
    np.savez(tmp_path / "p.npz", probs=PROBS, labels=np.zeros(3))
    (tmp_path / "p.csv").write_text("node,ham,spam\n2,1.0,0.0\n0,0.25,0.75\n1,0.5,0.5\n")
    paths = [tmp_path / name for name in ("p.npy", "p.npz", "p.csv")]
    try:
        from pyarrow import parquet, table
    except ModuleNotFoundError:
        pass
    else:
        parquet.write_table(table({"probs": PROBS.tolist()}), tmp_path / "list.parquet")
        columns = {"node": [1, 2, 0], "ham": PROBS[[1, 2, 0], 0], "spam": PROBS[[1, 2, 0], 1]}
        parquet.write_table(table(columns), tmp_path / "columns.parquet")
        paths += [tmp_path / "list.parquet", tmp_path / "columns.parquet"]
    for path in paths:
        np.testing.assert_array_equal(read_probs(path), PROBS)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.csv", "node,a\n0,1\n0,1\n", "column node does not have each of 0 to 1 once"),
        ("p.csv", "a,b\n1\n", r"p.csv \("),
        ("p.csv", "", r"p.csv \("),
        ("p.npy", "text", r"p.npy \("),
        ("p.txt", "1", r"got .*p.txt; allowed: class probabilities \[N, C\]"),
    ],
)
def test_other_content_is_one_line(name, text, says, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidFileError, match=says) as refused:
        read_probs(tmp_path / name)
    assert "\n" not in str(refused.value)
