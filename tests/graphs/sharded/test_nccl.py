"""NCCL in one process with one GPU; more need several GPUs."""

import pytest
import torch
import torch.distributed as dist
from spawning import adapt_on_ranks
from test_equality import CASES, adapted, moved_graph, trained_model

import matcha_gnn as mg
from matcha_gnn.errors import IncompatibleError

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and dist.is_nccl_available()), reason="needs a GPU and NCCL"
)


@pytest.fixture(autouse=True)
def one_rank():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def on_gpu(run):
    """The same with model and graph on the GPU."""
    return lambda model, graph, *rest, **named: run(model.cuda(), graph.cuda(), *rest, **named)


@pytest.mark.parametrize("name", CASES)
def test_a_rank_on_a_gpu_gives_what_one_process_gives(name):
    alone, ranks = adapted(on_gpu(mg.adapt), name), adapted(on_gpu(adapt_on_ranks), name)
    assert ranks.probs.is_cuda
    torch.testing.assert_close(ranks.probs, alone.probs, atol=1e-5, rtol=0)
    torch.testing.assert_close(ranks.gamma, alone.gamma, atol=1e-5, rtol=0)


def test_the_default_on_a_gpu():
    model, graph = trained_model().cuda(), moved_graph().cuda()
    alone, gathered = mg.adapt(model, graph), adapt_on_ranks(model, graph, gather=True)
    torch.testing.assert_close(gathered.probs, alone.probs, atol=1e-5, rtol=0)


def test_a_model_on_the_cpu_is_refused_with_nccl():
    with pytest.raises(IncompatibleError, match="NCCL"):
        adapt_on_ranks(trained_model(), moved_graph())
