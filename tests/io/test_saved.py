"""Files of answers, questions, sources and models: the same bits in a new process, or refused."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.nn import GAT, GCN

import matcha_gnn as mg
from matcha_gnn.evidence import summary as source_summary
from matcha_gnn.gamma import files as model_files
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.io import answerfiles, questionfiles
from matcha_gnn.io.jsontext import json_text
from matcha_gnn.io.questionfiles import Place, read_asked, with_graph, write_asked
from matcha_gnn.io.tensorfiles import CHECKSUM, checksum
from tensor_files import metadata_of, rewritten

pytestmark = pytest.mark.filterwarnings("ignore:source. taken as it is")

NODES, FEATURES = 400, 16
MAKERS = f"""
import numpy as np
import torch
from torch import nn
from torch_geometric.nn import GAT, GCN

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear({FEATURES}, {FEATURES}).double()
        self.second = self.first
        self.last = nn.Linear({FEATURES}, 2).double()

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).relu())

def gcn():
    return GCN({FEATURES}, 8, num_layers=2, out_channels=2)

def compiled():
    return torch.compile(gcn(), backend="eager")

def gat():
    return GAT({FEATURES}, 8, num_layers=2, out_channels=2, heads=2, edge_dim=3)

def lazy():
    return GCN(-1, 8, num_layers=2, out_channels=2)

def given():
    return np.load("probs.npy")

def of_a_graph(data):
    return torch.stack([torch.ones(len(data.x)), data.x[:, 0].exp()], 1).softmax(1)

def function():
    return of_a_graph
"""
LOADED = """
import sys
import torch
import matcha_gnn as mg
import makers
graph, answers = torch.load("target.pt", weights_only=False), {}
for name in sys.argv[1:]:
    loaded = mg.load(f"{name}.safetensors", network=getattr(makers, name)())
    answers[name] = [loaded(graph), mg.adapt(loaded, graph).probs, loaded.class_names]
torch.save(answers, "answers.pt")
"""


def graph_of(homophily, seed):
    graph = mg.datasets.csbm(NODES, FEATURES, homophily=homophily, signal=2, seed=seed)
    graph.edge_attr = torch.ones(graph.num_edges, 3) * (1 + graph.edge_index[0] % 3)[:, None]
    return graph


@pytest.fixture(scope="module")
def source():
    return graph_of(0.9, 0)


@pytest.fixture(scope="module")
def target():
    return graph_of(0.1, 1)


def adapted(net, source, target, **options):
    return mg.adapt(net, target, source=mg.summarise_source(net, source), **options)


@pytest.fixture(scope="module")
def result(source, target):
    torch.manual_seed(0)
    net = GCN(FEATURES, 8, num_layers=2, out_channels=2)
    return adapted(net, source, target, classes=("ham", "spam"))


def test_saved_answers_have_the_same_bits_in_a_new_process(source, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "makers.py").write_text(MAKERS)
    np.save("probs.npy", torch.randn(NODES, 2).softmax(1).numpy())
    torch.save(target, "target.pt")
    import makers

    names = ("gcn", "compiled", "gat", "lazy", "Tied", "given", "function")
    pools = {}
    for name in names:
        torch.manual_seed(0)
        net = getattr(makers, name)()
        if name == "lazy":
            net(source.x, source.edge_index)
        pools[name] = adapted(net, source, target, classes=("ham", "spam")).take("pool")
        pools[name].save(f"{name}.safetensors")
    subprocess.run([sys.executable, "-c", LOADED, *names], check=True)
    answers = torch.load("answers.pt")
    for name, pool in pools.items():
        answer, again, classes = answers[name]
        assert torch.equal(answer, pool.model(target)), name
        assert torch.equal(answer.argmax(1), pool.labels), name
        assert torch.equal(again, mg.adapt(pool.model, target).probs), name
        assert classes == ("ham", "spam")


def test_a_kept_source_and_a_metric_are_saved_too(source, target, tmp_path):
    net = mg.GPRGNN(FEATURES, 2, K=2)
    mg.fit(net, source, epochs=30)
    kept = mg.adapt(net, target).take("source")
    biased = mg.adapt(net, target, metric="balanced_accuracy").take("pool for balanced accuracy")
    for result in (kept, biased):
        result.save(tmp_path / "answer.safetensors")
        loaded = mg.load(tmp_path / "answer.safetensors", network=mg.GPRGNN(FEATURES, 2, K=2))
        assert torch.equal(loaded(target), result.model(target))
        assert torch.equal(loaded.source.class_prior, net.source.class_prior)


def test_strategies_save_models_that_can_be_built_again(result, target, tmp_path):
    model = mg.GPRGNN(FEATURES, 2, K=2)
    moved = mg.adapt(model, target, strategy=mg.Matcha(rounds=1))
    moved.save(tmp_path / "model.safetensors")
    assert torch.equal(mg.load_model(tmp_path / "model.safetensors").gamma, moved.gamma)
    net = result.model.network.net
    with pytest.raises(mg.IncompatibleError, match="save: GCN with hop weights has no model file"):
        mg.adapt(net, target, strategy=mg.Matcha(rounds=1)).save(tmp_path / "no.safetensors")
    assert not (tmp_path / "no.safetensors").exists()


WRONG = {
    "network: got None; allowed: a GCN, made as": None,
    "network: got a ndarray; allowed: a GCN, made": np.ones((NODES, 2)) / 2,
    "network: got a GAT; allowed: a GCN": GAT(FEATURES, 8, 2, 2),
    "convs.0.bias: torch.float32 [9]; allowed: torch.float32 [8]": GCN(FEATURES, 9, 2, 2),
    "bias: torch.float64 [8]; allowed: torch.float32 [8]": GCN(FEATURES, 8, 2, 2).double(),
    "convs.1.bias: torch.float32 [8]; allowed: torch.float32 [2]": GCN(FEATURES, 8, 3, 2),
}


@pytest.mark.parametrize("says", WRONG)
def test_another_network_is_refused_in_one_line(says, result, tmp_path):
    result.save(tmp_path / "answer.safetensors")
    with pytest.raises(mg.InvalidArgumentError) as refused:
        mg.load(tmp_path / "answer.safetensors", network=WRONG[says])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_questions_decide_as_they_would_have_without_files(metric, source, target, tmp_path):
    torch.manual_seed(0)
    net = GCN(FEATURES, 8, num_layers=2, out_channels=2)
    result = adapted(net, source, target, metric=metric, classes=("ham", "spam"))
    first, more = ({q.node: int(target.y[q.node]) for q in result.ask(n)[-4:]} for n in (4, 8))
    write_asked(result, tmp_path, Place("g.npz", True), page=False)
    decided = result.answer(first)
    read, place = read_asked(tmp_path)
    again = read.answer(first)
    assert place == Place("g.npz", True)
    own, theirs = (json_text(each.to_dict() | {"date": ""}) for each in (again, decided))
    assert own == theirs
    assert torch.equal(again.probs, decided.probs)
    again.save(tmp_path / "answer.safetensors")
    loaded = mg.load(tmp_path / "answer.safetensors", network=net)
    assert torch.equal(loaded(target), decided.model(target))
    with_evidence = with_graph(read, unlabelled(target))
    assert torch.equal(with_evidence.posterior.probs, result.posterior.probs)
    write_asked(again, tmp_path, place, page=False)
    own, theirs = (each.answer(more).verdict for each in (read_asked(tmp_path)[0], decided))
    assert json_text(own.figures()) == json_text(theirs.figures())
    with pytest.raises(mg.InvalidFileError, match="^graph: got a graph with the fingerprint"):
        with_graph(read, unlabelled(source))


def write_questions(result, path):
    result.ask(5)
    write_asked(result, path.parent, Place(), page=False)


KINDS = {
    "answer": (
        answerfiles.FORMAT,
        lambda result, path: result.save(path),
        lambda path: mg.load(path, network=GCN(FEATURES, 8, 2, 2)),
    ),
    "questions": (questionfiles.FORMAT, write_questions, lambda path: read_asked(path.parent)),
    "source": (
        source_summary.FORMAT,
        lambda result, path: result.source.save(path),
        mg.SourceSummary.load,
    ),
    "model": (
        model_files.FORMAT,
        lambda result, path: mg.save_model(mg.GPRGNN(4, 2), path),
        mg.load_model,
    ),
}


@pytest.fixture(params=KINDS)
def kind(request, result, tmp_path):
    form, write, read = KINDS[request.param]
    path = tmp_path / "questions.safetensors"
    write(result, path)
    assert form.wrote(path)
    return form, path, read


DAMAGE = {
    "checksum is not that of its content": lambda path, form: save_file(
        {n: t + 1 if t.is_floating_point() else t for n, t in load_file(path).items()},
        path,
        metadata_of(path),
    ),
    "no checksum: damaged": lambda path, form: save_file(
        load_file(path), path, {n: t for n, t in metadata_of(path).items() if n != CHECKSUM}
    ),
    "too old": lambda path, form: rewritten(
        path, metadata={"format": form.name.rpartition(" ")[0] + " 0"}
    ),
    "newer version of matcha-gnn: install it": lambda path, form: rewritten(
        path, metadata={"format": form.name.rpartition(" ")[0] + " 99"}
    ),
    "got .*'pt'": lambda path, form: save_file(load_file(path), path, {"format": "pt"}),
    "not a safetensors file, or damaged": lambda path, form: path.write_bytes(
        path.read_bytes()[:-9]
    ),
    "NaN or infinite entries": lambda path, form: rewritten(
        path,
        tensors={n: t * torch.nan for n, t in load_file(path).items() if t.is_floating_point()},
    ),
}


@pytest.mark.parametrize("says", DAMAGE)
def test_damage_is_refused_and_named(says, kind):
    form, path, read = kind
    metadata = dict(metadata_of(path))
    assert metadata.pop(CHECKSUM) == checksum(metadata, load_file(path))
    read(path)
    DAMAGE[says](path, form)
    with pytest.raises(mg.InvalidFileError, match=says) as refused:
        read(path)
    assert "\n" not in str(refused.value)


OPTIONAL = ("confusion", "prior", "network", "source.network", "own.", "source.own.")


def test_parts_that_a_file_lacks_or_has_otherwise_are_refused(kind):
    """With a checksum that fits, as somebody else may write."""
    _, path, read = kind
    whole, tensors, metadata = path.read_bytes(), load_file(path), metadata_of(path)
    for name in sorted(tensors):
        if name.startswith(OPTIONAL):
            continue
        rewritten(path, tensors={name: None})
        with pytest.raises(mg.MatchaError):
            read(path)
        path.write_bytes(whole)
    content = json.loads(metadata.get("content", "{}"))
    for name in content:
        rest = {each: value for each, value in content.items() if each != name}
        rewritten(path, metadata={"content": json.dumps(rest)})
        with pytest.raises(mg.MatchaError):
            read(path)
        path.write_bytes(whole)
