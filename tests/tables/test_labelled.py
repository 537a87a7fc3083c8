"""The labelled side in tables gives the summary that it gives in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

import matcha_gnn as mg
from table_worlds import files, world


class Given(torch.nn.Module):
    def __init__(self, probs):
        super().__init__()
        self.probs = probs

    def forward(self, x, edge_index):
        return self.probs.log()


@pytest.fixture(scope="module")
def made():
    return world(2, 1000)


@pytest.fixture(scope="module")
def labels():
    made = {"num_features": 48, "degree": 6.0, "signal": 2.5, "shares": [0.5] * 2}
    return mg.datasets.csbm(1000, homophily=0.4, seed=1, **made).y


def labelled(made, labels, folder, names=("label", "is_train")):
    nodes, edges = files(made, folder)
    table = pq.read_table(nodes)
    ids = table.column("id").to_numpy()
    table = table.append_column(names[0], pa.array(labels.numpy()[ids]))
    pq.write_table(table.append_column(names[1], pa.array(ids % 2 == 0)), nodes)
    return nodes, edges


def test_tables_are_memory(made, labels, tmp_path):
    nodes, edges = labelled(made, labels, tmp_path)
    own = mg.tables.summarise(nodes, edges, trained="is_train")
    data = Data(x=made.target.x, edge_index=made.target.edge_index, y=labels)
    other = mg.summarise_source(Given(made.probs), data, torch.arange(1000) % 2 == 0)
    assert own.tensors().keys() - {"as_given"} == other.tensors().keys()
    for name, tensor in other.tensors().items():
        np.testing.assert_allclose(own.tensors()[name], tensor, atol=1e-4, err_msg=name)
    out = str(tmp_path / "out.parquet")
    with mg.tables.adapt(nodes, edges, source=own, out=out) as answer:
        assert answer.estimate.low < answer.estimate.value < answer.estimate.high


def test_what_does_not_fit_is_refused(made, labels, tmp_path, monkeypatch):
    monkeypatch.setattr("matcha_gnn.tables.labelled.COPIES", 10_000)
    nodes, edges = labelled(made, labels, tmp_path)
    with pytest.raises(mg.InvalidArgumentError, match=r"memory: got 2GB; allowed: about \d"):
        mg.tables.summarise(nodes, edges, trained="is_train")


def test_bad_columns(made, labels, tmp_path):
    nodes, edges = labelled(made, labels, tmp_path)
    with pytest.raises(mg.InvalidGraphError, match="trained: got no column 'train'"):
        mg.tables.summarise(nodes, edges, trained="train")
    with pytest.raises(mg.InvalidGraphError, match="trained: got label of type int64"):
        mg.tables.summarise(nodes, edges, trained="label")
    with pytest.raises(mg.InvalidGraphError, match="label: got is_train of type bool"):
        mg.tables.summarise(nodes, edges, trained="is_train", label="is_train")
