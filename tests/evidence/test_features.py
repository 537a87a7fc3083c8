"""Features of a target beside the source's: the statistics, and what is said of broken ones."""

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence.features import compare, profile
from matcha_gnn.graphs.memory import unlabelled
from matcha_paper.studies.worlds import World

WORDS = World(
    (0.4, 0.3, 0.3), 0.8, 8, 1000, 300, 1.6, topics=3, topic_signal=2.0, topic_pull=0.9, words=True
)


def described(graph):
    return profile(unlabelled(graph), graph.y, torch.ones(graph.num_nodes, dtype=torch.bool))


def with_features(graph, x):
    changed = graph.clone()
    changed.x = x
    return changed


@pytest.fixture(scope="module")
def trained():
    source, target = WORDS.draw(0), WORDS.draw(1)
    model = mg.GPRGNN(300, 3)
    mg.fit(model, source, epochs=30)
    return model, target


def shuffled(size):
    return torch.randperm(size, generator=torch.Generator().manual_seed(0))


BROKEN = {
    "noise": (lambda x: torch.rand_like(x), "standard deviations|vary"),
    "ones": (torch.ones_like, "the same for all nodes"),
    "zeros": (torch.zeros_like, "the same for all nodes"),
    "another unit": (lambda x: 100 * x, r"vary [\d.]+ times as much"),
    "another unit, smaller": (lambda x: x / 100, "vary 0.0.* times as much"),
    "the opposite": (lambda x: 1 - x, "standard deviations from the source's"),
    "rows normalised": (lambda x: x / x.sum(1, keepdim=True).clamp_min(1), "vary 0.*scaled alike"),
    "rows permuted": (lambda x: x[shuffled(len(x))], "do not go with edges.*rows"),
    "columns permuted": (lambda x: x[:, shuffled(x.shape[1])], "columns in another order"),
    "columns shifted": (lambda x: x.roll(1, 1), "columns in another order"),
}


@pytest.mark.parametrize(("change", "says"), BROKEN.values(), ids=BROKEN)
def test_broken_features_are_told_from_good_ones(trained, change, says):
    model, target = trained
    torch.manual_seed(0)
    broken = with_features(target, change(target.x))
    with pytest.warns(mg.NotAdaptedWarning, match=f"cannot tell: .*({says})"):
        result = mg.adapt(model, broken)
    assert result.chosen == "source"
    assert torch.equal(result.probs, result.probs_before)
    assert result.severity == "alarm"
    assert result.alarms[0].startswith("Cannot tell: ")
    assert result.summary().count("annot tell: ") == 1
    assert all(np.isnan(one.accuracy.value) for one in result.candidates)
    assert np.isnan(mg.estimate(model, broken).value)
    assert mg.diagnose(model, broken).advice == "check the features"


def test_features_that_are_not_broken_are_not_refused(trained):
    model, target = trained
    result = mg.adapt(model, target)
    assert not result.broken
    assert result.severity != "alarm"


SHIFTS = {
    "homophily": {"homophily": 0.2},
    "edges at random": {"homophily": 0.5},
    "degree": {"degree": 20.0},
    "class shares": {"shares": (0.9, 0.1)},
    "attributes, as in the paper": {"shift": 0.8944271909999159},
    "attributes, far": {"shift": 2.0},
}


@pytest.mark.parametrize("options", SHIFTS.values(), ids=SHIFTS)
@pytest.mark.parametrize("width", [16, 500])
def test_generated_shifts_are_not_refused(options, width):
    known = {"num_nodes": 1000, "num_features": width, "homophily": 0.8, "degree": 5.0}
    source = mg.datasets.csbm(**known, seed=0)
    target = mg.datasets.csbm(**known | options, seed=1)
    assert compare(described(source), unlabelled(target)).problem == ""


def test_statistics_are_those_of_scipy_and_numpy():
    source, target = WORDS.draw(0), WORDS.draw(1)
    found = compare(described(source), unlabelled(target))
    own, other = source.x.double().numpy(), target.x.double().numpy()
    varies = own.std(0) > 0
    own, other = own[:, varies], other[:, varies]
    both = other.std(0) > 0
    ratios = np.log2(other.std(0)[both] / own.std(0)[both])
    offsets = (other.mean(0) - own.mean(0)) / own.std(0)
    assert found.scale == pytest.approx(np.median(ratios), rel=1e-6)
    assert found.offset == pytest.approx(np.sqrt((offsets**2).mean()), rel=1e-6)
    ranked = scipy.stats.spearmanr(own.mean(0), other.mean(0)).statistic
    assert found.ranked == pytest.approx(ranked, rel=1e-6)


def test_likeness_along_edges_is_that_of_scikit_learn():
    graph = WORDS.draw(0)
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()
    rows = graph.x.numpy()[:, graph.x.numpy().std(0) > 0]
    cosines = cosine_similarity(StandardScaler().fit_transform(rows))
    along = cosines[edges[0], edges[1]]
    rng = np.random.default_rng(0)
    scores = []
    for _ in range(50):
        more = along - cosines[edges[0], rng.permutation(edges[1])]
        scores.append(more.mean() / more.std() * np.sqrt(len(more)))
    found = compare(described(graph), unlabelled(graph)).linked
    assert found == pytest.approx(np.mean(scores), rel=0.1)


def test_likeness_that_the_classes_explain_does_not_count():
    blocks, topics = (
        described(world.draw(0)) for world in (World(homophily=0.9, degree=10), WORDS)
    )
    assert abs(float(blocks.linked)) < 5 < float(topics.linked)


@pytest.mark.parametrize("filled", [0.05, 0.9])
def test_sparse_features_give_what_dense_ones_give(filled):
    chance = torch.Generator().manual_seed(0)
    graphs = []
    for seed in (0, 1):
        drawn = WORDS.draw(seed)
        kept = torch.rand(drawn.x.shape, generator=chance) < filled
        graphs.append(with_features(drawn, (drawn.x + 0.5) * kept))
    dense = [described(graphs[0]), *graphs]
    sparse = [with_features(graph, graph.x.to_sparse_csr()) for graph in graphs]
    sparse = [described(sparse[0]), *sparse]
    for name, tensor in dense[0].tensors().items():
        torch.testing.assert_close(sparse[0].tensors()[name], tensor, rtol=1e-9, atol=1e-12)
    for one, other in ((dense, sparse), (sparse, dense)):
        expected = compare(one[0], unlabelled(one[2]))
        np.testing.assert_allclose(compare(other[0], unlabelled(one[2])), expected, rtol=1e-9)


@pytest.mark.parametrize("loops", [False, True])
def test_lost_edges_are_refused(loops):
    source = WORDS.draw(0)
    edges = torch.arange(len(source.x)).expand(2, -1) if loops else torch.empty(2, 0).long()
    problem = compare(described(source), unlabelled(Data(source.x, edges))).problem
    assert problem == (
        "cannot tell: nodes have 0 times as many edges as on the source; are edges missing?"
    )
