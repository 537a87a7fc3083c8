"""The source travels in a file of its own: whole, small, and refused in one line where damaged."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from tensor_files import rewritten


def network(classes=3, features=6, seed=0):
    torch.manual_seed(seed)
    return GCN(features, 8, num_layers=2, out_channels=classes).eval()


def summary():
    return mg.summarise_source(network(), tiny_graph(0.8, seed=0))


def test_a_summary_is_read_as_it_was_written(tmp_path):
    path, made = tmp_path / "source.safetensors", summary()
    made.save(path)
    read = mg.SourceSummary.load(path)
    assert read.tensors().keys() == made.tensors().keys()
    assert all(torch.equal(read.tensors()[name], t) for name, t in made.tensors().items())
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_it_is_small_and_has_no_rows_of_data(tmp_path):
    graph = mg.datasets.csbm(2000, 50, seed=0)
    made = mg.summarise_source(network(2, 50), graph)
    made.save(tmp_path / "source.safetensors")
    probe = made.evidence.probe_weight.numel() * 4
    assert (tmp_path / "source.safetensors").stat().st_size < probe + 8_000
    assert all(2000 not in tensor.shape for tensor in made.tensors().values())


@pytest.mark.parametrize("make", [network, trained_model], ids=["network", "backbone"])
def test_every_form_of_a_source_decides_alike(tmp_path, make):
    source, target, path = tiny_graph(0.8, seed=0), tiny_graph(), tmp_path / "source.safetensors"
    model = make()
    if isinstance(model, mg.Backbone):
        model.source = None
    made = mg.summarise_source(model, source)
    made.save(path)
    if isinstance(model, mg.Backbone):
        model.source = None
    given = [made, path, str(path), source]
    results = [mg.adapt(model, target, source=each) for each in given]
    assert all(result.probs.equal(results[0].probs) for result in results)
    assert results[0].status == "adapted"
    assert getattr(model, "source", None) is None
    assert results[0].model.source is not None


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def of_another_kind(path: Path) -> None:
    mg.save_model(trained_model(), path)


def of_an_older_version(path: Path) -> None:
    rewritten(path, metadata={"format": "matcha-gnn source summary 2"})


def without_a_part(path: Path) -> None:
    rewritten(path, tensors={"class_prior": None})


def not_finite(path: Path) -> None:
    rewritten(path, tensors={"accuracy": torch.tensor(torch.nan)})


def of_another_shape(path: Path) -> None:
    rewritten(path, tensors={"class_edges": torch.ones(3, 4)})


def of_other_evidence(path: Path) -> None:
    rewritten(path, tensors={"evidence.pool": torch.ones(3)})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (damaged, "not a safetensors file"),
        (of_another_kind, "'matcha-gnn model 7'"),
        (of_another_shape, "class_edges: shape [3, 4], where [3, 3] is needed"),
        (of_other_evidence, "pool: shape [3], where [2] is needed"),
        (of_an_older_version, "'matcha-gnn source summary 2', too old"),
        (without_a_part, "no 'class_prior'"),
        (not_finite, "NaN or infinite entries in accuracy"),
        (Path.unlink, "no such file"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, spoil, says):
    path = tmp_path / "source.safetensors"
    summary().save(path)
    spoil(path)
    with pytest.raises(mg.InvalidFileError, match="^source: got ") as error:
        mg.adapt(network(), tiny_graph(), source=path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore:source")
def test_other_sizes_are_refused_in_one_line_where_the_summary_names_no_network():
    older = replace(summary(), network=None)
    with pytest.raises(mg.IncompatibleError, match="of 3 classes, this model has 2"):
        mg.adapt(network(2), tiny_graph(), source=older)
    wide = mg.datasets.csbm(100, 9, shares=[1 / 3] * 3, seed=0)
    with pytest.raises(mg.InvalidGraphError, match="9 features; allowed: 6, as the source summary"):
        mg.adapt(network(3, 9), wide, source=older)
    with pytest.raises(mg.IncompatibleError, match="graph with 6 features, this one has 9"):
        mg.adapt(mg.GPRGNN(9, 3), wide, source=older)


def test_classes_missing_in_the_source_leave_no_nan(tmp_path):
    source = tiny_graph(0.8, seed=0)
    seen = source.y != 2
    source.train_mask = seen
    source.y = torch.where(seen, source.y, -1)
    net = network(seed=4)
    made = mg.summarise_source(net, source)
    assert all(tensor.isfinite().all() for tensor in made.tensors().values())
    made.save(tmp_path / "source.safetensors")
    with pytest.warns(mg.NotAdaptedWarning, match="class 2 has no labelled node"):
        result = mg.adapt(net, tiny_graph(), source=tmp_path / "source.safetensors")
    assert result.probs.isfinite().all()
    assert "nan" not in result.summary().lower()
    assert result.severity != "good"


def test_it_prints_in_one_line():
    assert repr(summary()).startswith("SourceSummary(3 classes, homophily 0.8")
