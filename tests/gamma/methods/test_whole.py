"""Running the whole model in every step gives what the fast paths give for filters."""

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.methods.whole import target_statistics
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from unknown_models import Unknown


@pytest.mark.parametrize("features", ["source", "base"])
@pytest.mark.parametrize(
    "method",
    [
        mg.Tent(),
        mg.Tent(steps=3, lr=0.3, optimizer="adam"),
        mg.SOGA(),
    ],
    ids=lambda m: f"{m.name}-{m.optimizer}",
)
def test_equals_the_fast_path_of_a_filter(method, features):
    model = trained_model()
    fast = mg.gamma.run(model, tiny_graph(), method, mg.Matcha(lr=0.3, rounds=3, features=features))
    whole = mg.gamma.run(
        Unknown(model), tiny_graph(), method, mg.Matcha(lr=0.3, rounds=3, features=features)
    )
    torch.testing.assert_close(whole.probs, fast.probs, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(whole.gamma, fast.gamma, rtol=1e-3, atol=1e-4)
    plain = mg.gamma.run(model, tiny_graph(), strategy=mg.Matcha(lr=0.3, rounds=3))
    assert not torch.allclose(whole.probs, plain.probs, atol=1e-3)


def test_target_statistics_are_those_of_batch_norms_training_mode_and_leave_no_trace():
    norm = torch.nn.BatchNorm1d(4).eval()
    before = {k: v.clone() for k, v in norm.state_dict().items()}
    x = torch.randn(9, 4) * 3 + 1
    with target_statistics(norm):
        got = norm(x)
    torch.testing.assert_close(got, torch.nn.BatchNorm1d(4).train()(x))
    assert not norm.training
    assert norm.track_running_stats
    assert all(torch.equal(before[k], v) for k, v in norm.state_dict().items())
