"""How far an estimate may be off: parts of the source left out, class mix, contradiction."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

import matcha_gnn as mg
from matcha_gnn.evidence.goals import Wanted
from matcha_gnn.evidence.parts import thirds
from matcha_gnn.evidence.posterior import infer
from matcha_gnn.evidence.probe import fit_probe, logits_without, rows_of
from matcha_gnn.evidence.rating import per_error, rater_of
from matcha_gnn.evidence.trust import (
    BEYOND_FACTOR,
    CONTRADICTION,
    FREE,
    PARTS_FACTOR,
    SUREST,
    UPWARD,
    Trust,
    contradiction,
    mix_distance,
    parts_error,
    trust_in,
)

NOTHING_WRONG = Trust(0.0, 0.0, 0.0, 0.0, 0.0, 900)


@pytest.fixture(scope="module")
def fitted():
    """A model with its summary, and a target of another homophily."""
    source = mg.datasets.csbm(900, 16, homophily=0.8, signal=1.5, seed=0)
    target = mg.datasets.csbm(600, 16, homophily=0.3, signal=1.5, seed=1)
    model = mg.GPRGNN(16, 2)
    mg.fit(model, source, epochs=30)
    return model, source, target


@pytest.fixture(scope="module")
def posterior(fitted):
    model, _, target = fitted
    graph = mg.unlabelled(target)
    return infer(model.source, graph, mg.predict(model, target).probs)


def believing(posterior, found):
    """The same posterior with another trust."""
    other = replace(posterior)
    other.__dict__["trust"] = found
    return other


def test_class_mixes_are_compared_by_total_variation():
    chance = np.random.default_rng(0)
    for _ in range(5):
        one, other = chance.dirichlet(np.ones(4)), chance.dirichlet(np.ones(4))
        subsets = [[k for k in range(4) if number >> k & 1] for number in range(16)]
        largest = max(abs(one[some].sum() - other[some].sum()) for some in subsets)
        found = mix_distance(torch.from_numpy(one), torch.from_numpy(other))
        assert found == pytest.approx(largest)


def test_the_error_on_parts_is_that_of_the_worse_answer_with_chance(posterior):
    parts = torch.tensor([[[0.8, 0.7], [0.9, 0.9]], [[0.8, 0.8], [0.9, 0.6]]])
    source = replace(posterior.source, parts=parts, part_nodes=torch.tensor(50.0))
    # The probe misses by .1 and 0, belief by 0 and .3.
    assert parts_error(source) == pytest.approx(math.sqrt(0.3**2 / 2 + 1 / 200))
    assert parts_error(replace(source, parts=parts[:0])) == 1.0


def test_contradiction_is_counted_where_the_probe_is_surest(posterior):
    probe = posterior.gathered.node.exp().numpy()
    belief = posterior.belief.numpy()
    order = np.argsort(-probe.max(1), kind="stable")[: round(SUREST * len(probe))]
    expected = (probe.argmax(1) != belief.argmax(1))[order].mean()
    assert contradiction(posterior.gathered, posterior.source) == pytest.approx(expected)
    some = torch.zeros(len(probe), dtype=torch.bool)
    assert contradiction(posterior.gathered, posterior.source, some) == 0.0


def test_trust_reads_source_and_target(posterior):
    found = trust_in(posterior.source, posterior.gathered, posterior.probs)
    assert found == posterior.trust
    assert found.parts == parts_error(posterior.source)
    mean = posterior.probs.mean(0)
    assert found.mix == pytest.approx(mix_distance(mean, posterior.source.shares))
    seen = posterior.source.parts[..., 1].max()
    assert found.surplus == pytest.approx(float(posterior.probs.amax(1).mean() - seen))
    missed = posterior.source.parts[:, 1, 0] - posterior.source.parts[:, 1, 1]
    assert found.bias == pytest.approx(max(0.0, float(missed.mean())))
    assert 0 < found.error < 0.1
    assert found.obstacle == ""


def test_intervals_are_wider_by_the_error(posterior):
    labels = posterior.probs.argmax(1)
    over = torch.where(torch.arange(len(labels)) % 3 > 0, labels, 1 - labels)
    off = Trust(0.02, 0.03, FREE + 0.01, FREE + 0.02, 0.0, 900)
    assert off.error == pytest.approx(PARTS_FACTOR * 0.02 + BEYOND_FACTOR * 0.03)
    plain, wide = believing(posterior, NOTHING_WRONG), believing(posterior, off)
    one, other = plain.accuracy(over), wide.accuracy(over)
    assert one.value - other.value == pytest.approx(0.03)
    assert one.low - other.low == pytest.approx(off.error)
    assert other.high - one.high == pytest.approx(UPWARD * off.error)
    changed = float((labels != over).double().mean())
    one, other = plain.gain(labels, over), wide.gain(labels, over)
    assert one.low - other.low == pytest.approx(changed * off.error)
    assert other.high - one.high == pytest.approx(changed * off.error)


def test_what_a_label_is_worth_is_linear_to_a_perfect_answer():
    assert per_error(1.0, 0.7, 0.9) == pytest.approx(3.0)
    assert per_error(1.0, 1.0, 1.0) == 0.0
    assert per_error(0.5, 0.7, 0.9) == 0.0


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Trust(0.02, 0, 0, 0, 0, 900), ""),
        (Trust(0.02, 0, 0, 0, CONTRADICTION, 900), ""),
        (
            Trust(0.02, 0, 0, 0, CONTRADICTION + 0.01, 900),
            "cannot tell: features and edges contradict",
        ),
        (Trust(0.25, 0, 0, 0, 0, 900), "cannot tell: estimates miss by 25 points on parts"),
        (Trust(0.05, 0, 0.95, 0, 0, 900), "cannot tell: 95% of nodes would have changed class"),
        (Trust(0.08, 0, 0.2, 0.8, 0, 900), "cannot tell: the estimate is 80 points above all"),
        (Trust(1.0, 0, 0, 0, 0, 900), "cannot tell: the source has too few labelled nodes"),
    ],
)
def test_beyond_the_limits_nothing_is_told(posterior, found, said):
    assert found.obstacle.startswith(said)
    assert bool(found.obstacle) == bool(said)
    assert believing(posterior, found).rejected == found.obstacle


def test_a_probe_without_a_part_is_logistic_regression_on_the_rest():
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(240, 6, generator=chance)
    labels = (x[:, 0] + torch.randn(240, generator=chance) > 0).long()
    labelled = torch.arange(240) % 5 > 0
    parts = torch.arange(240) % 3
    fit = fit_probe(x, labels, labelled, 2)
    found = logits_without(fit, rows_of(x), labels, labelled, parts).numpy()
    scaled = x.double().numpy() * fit.scale
    for part in range(3):
        known = (labelled & (parts != part)).numpy()
        # Weights of two classes are each other's negatives: of one row, half of the penalty.
        other = LogisticRegression(C=2 / (fit.strength * known.sum()), tol=1e-8, max_iter=5000)
        other.fit(scaled[known], labels[known])
        inside = (parts == part).numpy()
        difference = (found[:, 1] - found[:, 0])[inside] / fit.factor
        right = other.decision_function(scaled[inside])
        np.testing.assert_allclose(difference, right, atol=0.02)


def regions(apart, seed=0, number=900):
    """Two regions that differ in five columns; where `apart`, a sixth means the other class."""
    chance = torch.Generator().manual_seed(seed)
    side = (torch.arange(number) % 4 == 0).long()
    y = torch.randint(2, (number,), generator=chance)
    x = torch.randn(number, 8, generator=chance)
    x[:, :5] += 2.0 * side[:, None]
    sign = torch.where((side == 1) & torch.tensor(apart), -1.0, 1.0)
    x[:, 5] += 1.5 * sign * (2 * y - 1)
    ends = torch.randint(number, (2, 40 * number), generator=chance)
    alike = (y[ends[0]] == y[ends[1]]) | (torch.rand(ends.shape[1], generator=chance) < 0.3)
    ends = ends[:, (side[ends[0]] == side[ends[1]]) & alike][:, : 3 * number]
    return Data(x, torch.cat([ends, ends.flip(0)], 1), y=y), side


def test_thirds_have_the_class_mix_of_the_whole_and_follow_regions():
    graph, side = regions(apart=False)
    found = thirds(rows_of(graph.x), graph.edge_index, graph.y)
    assert len(found) == 3
    for groups in found:
        for each in range(2):
            sizes = torch.bincount(groups[graph.y == each])
            assert int(sizes.max() - sizes.min()) <= 1
    # The largest difference between nodes is that of the regions: all of the smaller is in one.
    share = [float((found[0][side == 1] == each).double().mean()) for each in (0, 2)]
    assert sorted(round(each, 1) for each in share) == [0.0, 1.0]


@pytest.mark.parametrize("apart", [False, True])
def test_parts_show_that_features_mean_something_else(apart):
    graph, _ = regions(apart)
    model = mg.GPRGNN(8, 2)
    mg.fit(model, graph, epochs=20)
    evidence = model.source.evidence
    missed = (evidence.parts[..., 0] - evidence.parts[..., 1]).abs()
    assert evidence.parts.shape[1:] == (2, 2)
    assert (float(missed.max()) > 0.15) == apart
    assert (parts_error(evidence) > 0.1) == apart


def test_a_gain_of_a_rare_class_may_be_lost_on_nodes_that_keep_their_label():
    options = {"num_nodes": 1500, "num_features": 16, "degree": 6, "signal": 2}
    source = mg.datasets.csbm(**options, shares=(0.9, 0.1), seed=0)
    target = mg.datasets.csbm(**options, shares=(0.8, 0.2), seed=1)
    model = mg.GPRGNN(16, 2)
    mg.fit(model, source, epochs=60)
    summary = mg.summarise_source(model, source)
    never = torch.tensor([[0.9, 0.1]]).expand(1500, 2)
    posterior = infer(summary, mg.unlabelled(target), mg.predict(model, target).probs)
    rater = rater_of(Wanted("f1", positive=1).goal(2, None), posterior)
    good, none = (rater.rate(probs) for probs in (posterior.probs, never))
    value, gain = rater.value(good), rater.gain(good, none)
    assert gain.value == value.value > 0.5
    changed = float((good.labels != 0).double().mean())
    assert gain.value - gain.low > changed * posterior.trust.error * good.per_error
    assert gain.low < value.low + 0.7 * (value.value - value.low)


def test_the_assumption_names_what_makes_an_estimate_less_sure():
    plain = Trust(0.07, 0.0, 0.0, 0.0, 0.0, 900).assumption
    assert plain.endswith("were misjudged by ± 7 points.")
    doubtful = Trust(0.07, 0.0, 0.3, 0.2, 0.0, 120).assumption
    assert "classes seems 30 points off" in doubtful
    assert "20 points above what was right on any part" in doubtful
    assert "only 120 labelled nodes" in doubtful
