"""A delta brings the adapted answer back in the network itself, and leaves without a trace."""

import copy
import gc

import pytest
import torch
import torch_geometric.nn as pyg
from safetensors.torch import save_file
from torch.nn import functional as F  # noqa: N812

import matcha_gnn as mg
import pyg_networks as nets

GCN = nets.convolutions(pyg.GCNConv)


class LogProbs(nets.Convolutions):
    def __init__(self):
        super().__init__(pyg.GCNConv)

    def forward(self, x, edge_index):
        return F.log_softmax(super().forward(x, edge_index), 1)


CASES = {
    "float": (nets.APPNPNet, mg.wrap),
    "floats, Data": (nets.GCN2Net, mg.wrap),
    "parameter": (nets.GPRNet, mg.wrap),
    "hops of SGConv": (nets.SGNet, mg.wrap),
    "terms of TAGConv": (nets.TAGNet, mg.wrap),
    "layers": (nets.JumpingNet, mg.wrap),
    "output": (nets.PropagatesLast, mg.wrap),
    "added before the head": (GCN, lambda net: mg.add_hops(net, head="lin")),
    "added to the output": (GCN, mg.add_hops),
    "added to log-probabilities": (LogProbs, mg.add_hops),
}


@pytest.fixture(params=CASES)
def case(request):
    build, dress = CASES[request.param]
    return nets.trained(build, epochs=15), dress


def test_the_network_answers_as_the_adapted_model_until_undone(case, tmp_path):
    (net, dress), target, file = case, nets.graphs()[1], tmp_path / "delta.safetensors"
    before, attributes = copy.deepcopy(net.state_dict()), [dict(vars(m)) for m in net.modules()]
    own = nets.answer(net, target).detach()
    result = mg.adapt(dress(net), target, strategy=mg.Matcha(rounds=10))
    mg.save_delta(result.model, file)
    assert file.stat().st_size < 2000

    applied = mg.apply_delta(net, file)
    for _ in range(2):
        adapted = nets.answer(net, target)
        torch.testing.assert_close(adapted.exp().detach(), result.probs, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(adapted, own, atol=1e-3)
    with pytest.raises(mg.IncompatibleError, match="has a delta in place: undo it first"):
        mg.apply_delta(net, file)

    applied.undo()
    applied.undo()
    assert torch.equal(nets.answer(net, target), own)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert [dict(vars(m)) for m in net.modules()] == attributes
    mg.apply_delta(net, file).undo()


def test_it_stays_in_place_when_the_handle_is_thrown_away(case, tmp_path):
    (net, dress), target, file = case, nets.graphs()[1], tmp_path / "delta.safetensors"
    result = mg.adapt(dress(net), target, strategy=mg.Matcha(rounds=10))
    mg.save_delta(result.model, file)
    mg.apply_delta(net, file)
    gc.collect()
    probs = nets.answer(net, target).exp().detach()
    torch.testing.assert_close(probs, result.probs, rtol=1e-3, atol=1e-4)


def test_what_returns_log_probabilities_goes_on_doing_so(tmp_path):
    net, target = nets.trained(LogProbs, epochs=15), nets.graphs()[1]
    mg.save_delta(
        mg.adapt(mg.add_hops(net), target, strategy=mg.Matcha(rounds=5)).model,
        tmp_path / "d.safetensors",
    )
    mg.apply_delta(net, tmp_path / "d.safetensors")
    rows = net(target.x, target.edge_index).exp().sum(1)
    torch.testing.assert_close(rows, torch.ones_like(rows))


def saved(net, folder):
    result = mg.adapt(mg.wrap(net), nets.graphs()[1], strategy=mg.Matcha(rounds=2))
    mg.save_delta(result.model, folder / "delta.safetensors")
    return folder / "delta.safetensors"


def test_another_base_is_refused_and_left_alone(tmp_path):
    net = nets.trained(nets.APPNPNet, epochs=5)
    file = saved(net, tmp_path)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.lin1.weight[0, 0] += 1e-3
    with pytest.raises(mg.IncompatibleError, match="belongs to other weights"):
        mg.apply_delta(other, file)
    assert other.prop.alpha == 0.1
    moved = copy.deepcopy(net)
    moved.prop.alpha = 0.2
    with pytest.raises(mg.IncompatibleError, match=r"γ of this APPNPNet \(prop.alpha\) is not"):
        mg.apply_delta(moved, file)
    mg.apply_delta(copy.deepcopy(net), file)


def test_a_model_whose_encoder_moved_has_no_delta(tmp_path):
    net = nets.trained(nets.APPNPNet, epochs=5)
    result = mg.adapt(mg.wrap(net), nets.graphs()[1], strategy=mg.Matcha(rounds=2, moves="both"))
    with pytest.raises(mg.IncompatibleError, match="a delta holds γ alone"):
        mg.save_delta(result.model, tmp_path / "delta.safetensors")


def test_other_models_and_files_are_refused(tmp_path):
    with pytest.raises(mg.InvalidArgumentError, match="model: got a GPRGNN.*use save_model"):
        mg.save_delta(mg.GPRGNN(4, 2), tmp_path / "delta.safetensors")
    net, file = nets.APPNPNet(), tmp_path / "file.safetensors"
    with pytest.raises(mg.InvalidFileError, match="no such file"):
        mg.apply_delta(net, file)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(mg.InvalidFileError, match="not a safetensors file"):
        mg.apply_delta(net, file)
    save_file({"gamma": torch.ones(1)}, file)
    with pytest.raises(mg.InvalidFileError, match="'no format'"):
        mg.apply_delta(net, file)
