"""What only a machine with a GPU can show, into a record: `make gpu`.

Run: python tests/gpu_checks.py results/gpu.json
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE

import matcha_gnn as mg
from matcha_gnn.io.provenance import versions
from matcha_gnn.kernels import Adjacency, gpu, propagate
from matcha_gnn.kernels.links import BeliefMessage, Links
from matcha_paper.provenance import commit

PROJECT = Path(__file__).parents[1]
SOURCES = ("fallback.py", "gpu.py", "gpu_programs.py")
WIDTHS = (1, 7, 8, 16, 33, 64, 128, 256)
BACKBONES = (mg.GPRGNN, mg.APPNP, mg.JKNet, mg.GCNII)
METHODS = (mg.ERM, mg.T3A, mg.Tent, mg.AdaNPC, mg.LAME, mg.SOGA, mg.GTrans, mg.GraphPatcher)
STRATEGIES = (mg.Matcha, mg.ClosedForm)
NETWORKS = (GCN, GraphSAGE, GAT, GIN)
Check = Callable[[], str]
GPU = torch.device("cuda")


def sources_hash() -> str:
    """Of the programs and what starts them."""
    folder = PROJECT / "src" / "matcha_gnn" / "kernels"
    texts = b"".join((folder / name).read_bytes() for name in SOURCES)
    return hashlib.sha256(texts).hexdigest()[:16]


def source_graph() -> Data:
    return mg.datasets.csbm(1000, 32, homophily=0.8, seed=0)


def target_graph() -> Data:
    return mg.datasets.csbm(1000, 32, homophily=0.3, seed=1000)


def there(graph: Data) -> Data:
    """A copy on the GPU; `Data.to` would move the caller's."""
    return graph.clone().to(GPU)


def apart(ours: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest difference beside the largest number."""
    ours, wanted = ours.detach().double().cpu(), wanted.detach().double().cpu()
    assert ours.shape == wanted.shape
    assert bool(ours.isfinite().all())
    return float((ours - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30))


def fit(kind: type[mg.Backbone], width: int) -> str:
    """Train on the GPU; one step's gradients, without dropout, are those of the CPU."""
    torch.manual_seed(0)
    model = kind(32, 2, hidden_channels=width, dropout=0.0)
    graph, gradients = source_graph(), []
    for place, data in (("cpu", graph), (GPU, there(graph))):
        model = model.to(place).train()
        model.zero_grad()
        cross_entropy(model(data), data.y).backward()
        gradients.append([p.grad.cpu().clone() for p in model.parameters() if p.grad is not None])
    scale = max(float(each.abs().max()) for each in gradients[0])
    worst = max(float((a - b).abs().max()) / scale for a, b in zip(*gradients, strict=True))
    assert worst < 1e-3, f"gradients differ by {worst:.1e}"
    torch.manual_seed(0)
    trained = kind(32, 2, hidden_channels=width).to(GPU)
    mg.fit(trained, there(graph), epochs=40)
    probs = mg.predict(trained, there(graph)).probs
    assert bool(probs.isfinite().all())
    return (
        f"gradients differ by {worst:.1e}, accuracy {mg.metrics.accuracy(probs.cpu(), graph.y):.3f}"
    )


def answers_agree(run: Callable[[Any, Data], Any], model: nn.Module, draws: bool = False) -> str:
    """The same call on CPU and GPU: at most one label in a hundred differs.

    Args:
        run: of a model and a graph.
        model: trained.
        draws: whether random numbers come from the device: then only the accuracy is alike.
    """
    target = target_graph()
    on_cpu = run(model.cpu(), target).probs
    on_gpu = run(model.to(GPU), there(target)).probs
    differing = float((on_cpu.argmax(1) != on_gpu.cpu().argmax(1)).float().mean())
    mean = float((on_cpu - on_gpu.cpu()).abs().mean())
    scores = [mg.metrics.accuracy(each.cpu(), target.y) for each in (on_cpu, on_gpu)]
    found = f"{differing:.1%} of the labels differ, accuracy {scores[0]:.3f} and {scores[1]:.3f}"
    if draws:
        assert abs(scores[0] - scores[1]) <= 0.04, found
    else:
        assert differing <= 0.01, found
    return f"{found}, probabilities apart by {mean:.1e} on average"


def trained(kind: type[mg.Backbone]) -> mg.Backbone:
    torch.manual_seed(0)
    model = kind(32, 2, hidden_channels=16)
    mg.fit(model, source_graph(), epochs=60)
    return model


def plain_network(kind: type[nn.Module], width: int) -> str:
    """From training to the page, all on the GPU; the CPU's answer by the same summary."""
    torch.manual_seed(0)
    source, target = there(source_graph()), there(target_graph())
    network = kind(32, width, 2, out_channels=2).to(GPU)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        cross_entropy(network(source.x, source.edge_index), source.y).backward()
        optimiser.step()
    summary = mg.summarise_source(network, source)
    estimate = mg.estimate(network, target, source=summary)
    result = mg.adapt(network, target, source=summary)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        result.report(page)
        assert page.stat().st_size > 10_000
    host = mg.adapt(network.cpu(), target_graph(), source=summary)
    differing = float((host.labels != result.labels.cpu()).float().mean())
    assert differing <= 0.01, f"{differing:.1%} of the labels differ"
    true = mg.metrics.accuracy(result.probs.cpu(), target.y.cpu())
    return f"{estimate}; truly {true:.3f} after adaptation, {differing:.1%} of the labels differ"


def long_products() -> str:
    """Positions beyond 2³¹ in h, and 2,200,000,000 entries of the matrix."""
    nodes, width = 12_000_000, 200
    crow = torch.arange(nodes + 1, device=GPU) * 2
    col = torch.randint(0, nodes, (2 * nodes,), device=GPU)
    matrix = torch.sparse_csr_tensor(crow, col, torch.ones(2 * nodes, device=GPU), (nodes, nodes))
    h = torch.randn(nodes, width, device=GPU)
    out = torch.empty_like(h)
    gpu.product(matrix, h, out, 0.5, h)
    some = torch.randint(0, nodes, (1000,), device=GPU)
    wanted = h[col[2 * some]] + h[col[2 * some + 1]] + 0.5 * h[some]
    worst = apart(out[some], wanted)
    del h, out, matrix, col
    torch.cuda.empty_cache()
    nodes, degree = 1_000_000, 2200
    crow = torch.arange(nodes + 1, device=GPU) * degree
    col = torch.randint(0, nodes, (nodes * degree,), device=GPU)
    values = torch.ones(nodes * degree, device=GPU)
    matrix = torch.sparse_csr_tensor(crow, col, values, (nodes, nodes))
    h = torch.randn(nodes, 2, device=GPU)
    out = torch.empty_like(h)
    gpu.product(matrix, h, out)
    last = col[-1000 * degree :].view(1000, degree)
    worst = max(worst, apart(out[-1000:], h.double()[last].sum(1)))
    assert worst < 1e-4
    return f"differ by {worst:.1e}"


def long_stack() -> str:
    """A round on hops with more than 2³¹ numbers."""
    nodes, hops, width, classes = 28_000_000, 10, 8, 3
    stack = torch.randn(nodes, hops, width, device=GPU)
    head = nn.Linear(width, classes).to(GPU).requires_grad_(False)
    weights = torch.rand(hops, device=GPU)
    probs, sums, mass = gpu.classify(stack, weights, head)
    z = (stack[-1000:] * weights[:, None]).sum(1)
    worst = apart(probs[-1000:], head(z).softmax(1))
    slopes = gpu.hop_slopes(stack, probs, sums)
    mixed = gpu.mix(stack, weights)
    worst = max(worst, apart(mixed[-1000:], z))
    total = gpu.class_sums(stack, probs)
    whole = torch.einsum("ckd,k->cd", torch.from_numpy(total), weights.cpu().double())
    worst = max(worst, apart(torch.from_numpy(sums), whole))
    direct = torch.einsum("ckd,cd->k", torch.from_numpy(total), torch.from_numpy(sums))
    worst = max(worst, apart(torch.from_numpy(slopes), direct))
    form = gpu.gram(stack, stack.mean(0).double().cpu().numpy())
    worst = max(worst, abs(form[0, 0] / (nodes * width) - 1) / 100)
    assert worst < 1e-4
    assert abs(mass.sum() / nodes - 1) < 1e-6
    return f"differ by {worst:.1e}"


def odd_graphs() -> str:
    """No edges, one node, a node with a million edges."""
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for edges, nodes in (
        (torch.empty(2, 0, dtype=torch.long), 5),
        (torch.empty(2, 0, dtype=torch.long), 1),
        (torch.stack([torch.arange(1_000_000) % 900_000, torch.zeros(1_000_000).long()]), 900_000),
    ):
        h = torch.randn(nodes, 3, generator=generator)
        stacks = [
            propagate(Adjacency.normalised(e, nodes, None, torch.float32), h.to(e.device), 2)
            for e in (edges, edges.to(GPU))
        ]
        worst = max(worst, apart(stacks[1], stacks[0]))
        message = BeliefMessage(torch.tensor([[1.5, 0.5], [0.5, 1.5]]).double())
        ends = torch.randn(2, nodes, 2, generator=generator).double()
        sums = [
            Links.of(edges.to(p), nodes).message_sums(
                BeliefMessage(message.lift.to(p)), *ends.to(p)
            )
            for p in ("cpu", GPU)
        ]
        worst = max(worst, apart(sums[1], sums[0]))
    assert worst < 1e-4
    return f"differ by {worst:.1e}"


def refused(call: Callable[[], Any], wanted: str) -> str:
    """One clear line."""
    with pytest.raises(mg.MatchaError, match=re.escape(wanted)) as refusal:
        call()
    return str(refusal.value)


def two_places() -> str:
    network = GCN(32, 8, 2, out_channels=2)
    first = refused(lambda: mg.adapt(network.to(GPU), target_graph()), "cpu")
    second = refused(lambda: mg.adapt(network.cpu(), there(target_graph())), "cuda")
    return f"{first} | {second}"


def out_of_memory() -> str:
    """One line says so, and the next call works."""
    network, target = GCN(32, 8, 2, out_channels=2).to(GPU), there(target_graph())
    large = mg.datasets.csbm(200_000, 32, homophily=0.3, seed=1).to(GPU)
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (4 << 20)) / total)
    try:
        line = refused(lambda: mg.adapt(network, large), "out of memory").split(". ")[0]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert bool(mg.adapt(network, target).probs.isfinite().all())
    return line


def kernels() -> str:
    """The tests of the programs, compiled and not interpreted."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/kernels/test_fast.py"], cwd=PROJECT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout.strip().splitlines()[-1]


def checks() -> Iterator[tuple[str, Check]]:
    """Names, and what to run."""
    yield "kernels: tests", kernels
    yield "kernels: no edges, one node, a million edges", odd_graphs
    yield "kernels: positions beyond 2^31", long_products
    yield "kernels: hops beyond 2^31 numbers", long_stack
    for kind in BACKBONES:
        for width in WIDTHS:
            yield f"fit: {kind.__name__}, width {width}", partial(fit, kind, width)
    for kind in BACKBONES:
        model = trained(kind)
        for method in METHODS:
            for strategy in (None, mg.Matcha(rounds=5)):
                name = f"{kind.__name__}, {method.__name__}, {'Matcha' if strategy else 'alone'}"
                yield f"method: {name}", partial(pair_agrees, model, method, strategy)
        for strategy in STRATEGIES:
            name = f"strategy: {kind.__name__}, {strategy.__name__}"
            yield name, partial(pair_agrees, model, mg.ERM, strategy())
        yield f"default: {kind.__name__}", partial(answers_agree, mg.adapt, model)
    for kind in NETWORKS:
        for width in (7, 64):
            yield f"network: {kind.__name__}, width {width}", partial(plain_network, kind, width)
    yield "places: model and graph on different devices", two_places
    yield "memory: less than is needed", out_of_memory


def pair_agrees(model: mg.Backbone, method: Any, strategy: Any) -> str:
    """A base method, alone or inside a strategy; a pair that is refused is refused on both."""

    def run(model: Any, graph: Data) -> Any:
        if strategy is None:
            return mg.predict(model, graph, method())
        return mg.gamma.run(model, graph, method(), strategy)

    try:
        return answers_agree(run, model, draws=method is mg.GTrans)
    except mg.IncompatibleError as error:
        return "on both: " + refused(lambda: run(model.to(GPU), there(target_graph())), str(error))


def outcome(check: Check) -> dict[str, Any]:
    try:
        return {"passed": True, "found": check()}
    except Exception as error:
        traceback.print_exc()
        return {"passed": False, "found": f"{type(error).__name__}: {error}"[:500]}


def main() -> None:
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "versions": versions() | {"triton": triton.__version__},
        "commit": commit(),
        "hash": sources_hash(),
        "checks": {},
    }
    for name, check in checks():
        record["checks"][name] = outcome(check)
        state = "passed" if record["checks"][name]["passed"] else "FAILED"
        print(f"{state}  {name}: {record['checks'][name]['found']}", flush=True)
    failed = sum(not each["passed"] for each in record["checks"].values())
    print(f"{len(record['checks']) - failed} passed, {failed} failed")
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
