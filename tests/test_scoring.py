"""Labels and masks of a target, good and bad: scored where valid, and said where not."""

import json

import numpy as np
import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.metrics import accuracy, confusion_matrix, evaluate
from matcha_gnn.report.template import percent
from running import run

NODES, CLASSES = 120, 3
TRUE = tiny_graph().y.numpy()
SOME = np.arange(NODES) < 40
OUTSIDE = "are not classes 0 to 2 and were not scored"
IGNORED = "it was ignored, and all nodes count"


def with_unknown(value, dtype=np.int64, number=37):
    labels = TRUE.astype(dtype)
    labels[:number] = value
    return labels


CASES = {
    # name: (arrays, nodes that are scored, what a remark says)
    "plain": ({"y": TRUE}, slice(None), None),
    "bool mask": ({"y": TRUE, "test_mask": SOME}, SOME, None),
    "int64 mask": ({"y": TRUE, "test_mask": SOME.astype(np.int64)}, SOME, None),
    "uint8 mask": ({"y": TRUE, "test_mask": SOME.astype(np.uint8)}, SOME, None),
    "float mask": ({"y": TRUE, "test_mask": SOME.astype(np.float32)}, SOME, None),
    "mask [N, 1]": ({"y": TRUE, "test_mask": SOME[:, None]}, SOME, None),
    "mask of other numbers": ({"y": TRUE, "test_mask": np.arange(NODES)}, slice(None), IGNORED),
    "mask of NaN": ({"y": TRUE, "test_mask": np.full(NODES, np.nan)}, slice(None), IGNORED),
    "short mask": ({"y": TRUE, "test_mask": SOME[:50]}, slice(None), IGNORED),
    "indices": ({"y": TRUE, "test_mask": np.array([3, 4])}, slice(None), IGNORED),
    "several masks": ({"y": TRUE, "test_mask": np.stack([SOME] * 5, 1)}, slice(None), IGNORED),
    "mask without a node": ({"y": TRUE, "test_mask": 0 * SOME}, slice(None), "no node; it was"),
    "mask of text": ({"y": TRUE, "test_mask": np.array(["a"] * NODES)}, slice(None), IGNORED),
    "minus one": ({"y": with_unknown(-1)}, slice(37, None), f"37 of 120 labels {OUTSIDE}"),
    "huge classes": ({"y": with_unknown(30_000)}, slice(37, None), f"37 of 120 labels {OUTSIDE}"),
    "huger classes": ({"y": with_unknown(2**62)}, slice(37, None), f"37 of 120 labels {OUTSIDE}"),
    "float labels": ({"y": TRUE.astype(np.float32)}, slice(None), None),
    "NaN labels": ({"y": with_unknown(np.nan, np.float64)}, slice(37, None), "37 of 120 labels"),
    "infinite labels": ({"y": with_unknown(np.inf, np.float64)}, slice(37, None), OUTSIDE),
    "fractions": ({"y": with_unknown(0.5, np.float64)}, slice(37, None), OUTSIDE),
    "labels [N, 1]": ({"y": TRUE[:, None]}, slice(None), None),
    "short integers": ({"y": TRUE.astype(np.uint8)}, slice(None), None),
    "unknown outside the mask": ({"y": with_unknown(-1), "test_mask": ~SOME}, ~SOME, None),
    "one-hot": ({"y": np.eye(CLASSES)[TRUE]}, None, "labels: shape [120, 3] instead of"),
    "wrong length": ({"y": TRUE[:50]}, None, "labels: shape [50] instead of one for each of 120"),
    "a number": ({"y": np.array(1)}, None, "labels: shape [] instead of"),
    "text": ({"y": np.array(["a"] * NODES)}, None, "labels: a ndarray instead of a tensor"),
    "complex": ({"y": TRUE.astype(np.complex64)}, None, "labels: torch.complex64"),
    "none valid": ({"y": np.full(NODES, -1)}, None, f"120 of 120 labels {OUTSIDE}"),
}


WITH_PAGE = ("plain", "bool mask", "one-hot")
"""Pictures take longer than all else."""


def written(folder, arrays):
    graph = tiny_graph()
    np.savez(folder / "g.npz", x=graph.x.numpy(), edge_index=graph.edge_index.numpy(), **arrays)
    mg.save_model(trained_model(), folder / "m.safetensors")
    return ["adapt", folder / "m.safetensors", folder / "g.npz", "-o", folder / "out"]


@pytest.fixture(scope="module")
def expected():
    return mg.adapt(trained_model(), tiny_graph())


@pytest.mark.parametrize("name", CASES)
def test_adapt_scores_what_is_valid_and_says_what_is_not(
    name, tmp_path, capsys, expected, monkeypatch
):
    arrays, scored, remark = CASES[name]
    if name not in WITH_PAGE:
        monkeypatch.setattr(mg.Result, "report", lambda *_, **__: None)
    code, said, _ = run(capsys, *written(tmp_path, arrays), "--json")
    assert code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert json.loads(said) == summary
    page = tmp_path / "out" / "report.html"
    shown = page.read_text() if page.is_file() else None
    assert bool(shown) == (name in WITH_PAGE)
    if scored is None:
        assert summary["accuracy_before"] is summary["accuracy_after"] is None
        assert summary["scored_nodes"] == 0
        assert shown is None or "against the labels that were given" not in shown
    else:
        hits = (expected.labels.numpy() == TRUE)[scored]
        assert summary["accuracy_after"] == pytest.approx(hits.mean(), abs=1e-12)
        assert summary["scored_nodes"] == len(hits)
        over = "all 120 nodes" if len(hits) == NODES else f"{len(hits)} of 120 nodes"
        assert shown is None or f"Over {over}" in shown
    remarks = summary["score_remarks"]
    assert [remark in each for each in remarks] == ([] if remark is None else [True])


@pytest.mark.parametrize(
    ("predicted", "labels", "mask", "argument"),
    [
        (torch.zeros(4), torch.zeros(4, dtype=torch.int64), None, "predicted"),
        ([0, 0, 0, 0], torch.zeros(4, dtype=torch.int64), None, "predicted"),
        (torch.zeros(4, dtype=torch.int64), torch.zeros(4), None, "labels"),
        (torch.zeros(4, dtype=torch.int64), [0, 0, 0, 0], None, "labels"),
        (torch.zeros(4, dtype=torch.int64), torch.tensor([0, 1, -1, 0]), None, "labels"),
        *(
            (torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64), mask, "mask")
            for mask in (
                torch.ones(4).int(),
                torch.ones(3).bool(),
                torch.zeros(4).bool(),
                [True] * 4,
            )
        ),
    ],
)
def test_direct_calls_are_strict(predicted, labels, mask, argument):
    for score in (evaluate, accuracy):
        with pytest.raises(mg.InvalidArgumentError, match=rf"^{argument}: got .*; allowed: "):
            score(predicted, labels, mask)


def test_recall_on_the_page_is_that_of_the_confusion_matrix(tmp_path, expected):
    expected.report(tmp_path / "r.html", tiny_graph().y)
    seen = confusion_matrix(tiny_graph().y, expected.labels)
    page = (tmp_path / "r.html").read_text()
    for recall in (seen.diagonal() / seen.sum(1)).tolist():
        assert percent(recall, 1) in page


def test_the_remark_is_printed(tmp_path, capsys):
    code, said, _ = run(capsys, *written(tmp_path, {"y": with_unknown(-1)}))
    assert code == 0
    assert "37 of 120 labels are not classes 0 to 2 and were not scored" in said
