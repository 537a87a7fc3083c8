"""What is said of probabilities that cannot be made again on changed copies of the source."""

import pytest

import matcha_gnn as mg
from matcha_gnn.evidence.summary import AS_GIVEN

pytestmark = pytest.mark.filterwarnings("ignore:source. taken as it is")


def graph(homophily, seed):
    return mg.datasets.csbm(600, 16, degree=6, homophily=homophily, signal=2, seed=seed)


def by_features(data):
    return (4 * data.x[:, :1] @ data.x.new_tensor([[1.0, -1.0]])).softmax(1)


@pytest.mark.parametrize("as_given", [True, False])
def test_summary_and_result_say_whether_changed_copies_were_made(as_given, tmp_path):
    source, target = graph(0.8, 0), graph(0.5, 1)
    model, there = by_features, by_features
    if as_given:
        model, there = by_features(source), by_features(target)
    mg.summarise_source(model, source).save(tmp_path / "source.safetensors")
    summary = mg.SourceSummary.load(tmp_path / "source.safetensors")
    result = mg.adapt(there, target, source=summary)
    assert not result.obstacle
    assert summary.as_given == as_given
    assert (AS_GIVEN in repr(summary)) == as_given
    assert (AS_GIVEN[1:] in result.summary()) == as_given
