"""Every fast kernel gives the numbers of its definition, in float64 and written out.

GPU programs run on a GPU where there is one, and in Triton's interpreter elsewhere.
"""

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from matcha_gnn import kernels
from matcha_gnn.evidence.goals import by_products, sums_by_label
from matcha_gnn.gamma import functional
from matcha_gnn.gamma.hops import Hops, MixedSums
from matcha_gnn.kernels import Adjacency, cpu, reference, two_pass
from matcha_gnn.kernels.devices import DEVICES
from matcha_gnn.kernels.links import BeliefMessage, Links
from matcha_gnn.kernels.sparse import csr_of

try:
    from matcha_gnn.kernels import gpu
except ImportError:
    # Triton has no wheel for this machine: the plain kernels run instead.
    gpu = None

GPU = "cuda" if torch.cuda.is_available() else "cpu"
NEEDS_TRITON = pytest.mark.skipif(gpu is None, reason="triton is not installed")
HALF = (torch.float16, torch.bfloat16)
SHAPES = [
    *((1, 1, 1, 2), (3, 1, 5, 2), (7, 10, 32, 3), (66, 10, 32, 2), (70, 4, 33, 17)),
    *((513, 4, 8, 3), (150, 2, 6, 40), (150, 2, 6, 41), (150, 2, 6, 64)),
]
"""Nodes, hops, width and classes."""
MODULES = {"reference": reference, "cpu": cpu, "gpu": gpu}
KERNELS = {
    "mix": ("reference", "cpu", "gpu"),
    "node sums": ("reference",),
    "class sums": ("reference", "cpu", "gpu"),
    "gram": ("reference", "gpu"),
    "one pass": ("reference", "cpu", "gpu"),
    "two passes": ("reference", "cpu", "gpu"),
    "slopes": ("reference", "cpu", "gpu"),
}
"""Which modules have each."""
DTYPES = {
    "reference": (torch.float32, torch.float64),
    "cpu": (torch.float32,),
    "gpu": (torch.float32, *HALF),
}
WIDE = {"one pass", "gram", "slopes"}
"""Kernels of the GPU that take no hops in half precision."""


@dataclass
class Case:
    """Random hops, weights of nodes, a head and hop weights."""

    stack: torch.Tensor
    weights: torch.Tensor
    head: nn.Linear
    hop_weights: torch.Tensor

    @classmethod
    def draw(cls, shape, dtype=torch.float32, place="cpu"):
        nodes, hops, width, classes = shape
        generator = torch.Generator().manual_seed(nodes)
        stack = torch.randn(nodes, hops, width, generator=generator) + 0.3
        weights = torch.rand(nodes, classes, generator=generator)
        head = nn.Linear(width, classes).requires_grad_(False)
        for part in (head.weight, head.bias):
            part.normal_(generator=generator)
        hop_weights = torch.rand(hops, generator=generator)
        # Half precision is of hops alone.
        wide = torch.float32 if dtype in HALF else dtype
        parts = (part.to(place, wide) for part in (weights, head, hop_weights))
        return cls(stack.to(place, dtype), *parts)

    def exact(self, kernel):
        """What the kernel should give, and numbers whose size its rounding errors have."""
        parts = self.stack, self.weights, self.head.weight, self.head.bias, self.hop_weights
        stack, weights, rows, bias, c = (part.cpu().double() for part in parts)
        z = torch.einsum("nkd,k->nd", stack, c)
        if kernel == "mix":
            return [(z, z)]
        if kernel == "node sums":
            return [(stack.sum(0), stack.abs().sum(0))]
        if kernel == "class sums":
            return [(torch.einsum("nc,nkd->ckd", weights, stack), stack.abs().sum(0))]
        if kernel == "gram":
            centred = stack - stack.mean(0)
            spread = torch.einsum("nkd,nld->kl", stack, stack)
            return [(torch.einsum("nkd,nld->kl", centred, centred), spread)]
        if kernel == "slopes":
            slopes = torch.einsum("nc,cd,nkd->k", weights, rows, stack)
            return [(slopes, torch.einsum("nc,cd,nkd->k", weights, rows.abs(), stack.abs()))]
        probs = (z @ rows.T + bias).softmax(1)
        # What the sums of the other classes leave of all nodes is the last one's.
        sums = torch.einsum("nc,nkd->ckd", probs, stack), stack.abs().sum(0)
        if kernel == "two passes":
            sums = probs.T @ z, probs.T @ z.abs()
        return [(probs, probs), sums, (probs.sum(0), probs.sum(0))]

    def found(self, kernel, name):
        module, mean = MODULES[name], self.stack.double().mean(0).cpu().numpy()
        if kernel == "mix":
            return [module.mix(self.stack, self.hop_weights)]
        if kernel == "node sums":
            return [module.node_sums(self.stack)]
        if kernel == "class sums":
            return [module.class_sums(self.stack, self.weights)]
        if kernel == "gram":
            return [module.gram(self.stack, mean)]
        if kernel == "slopes":
            plain = partial(two_pass.hop_slopes, hop_dots=reference.hop_dots)
            slopes = plain if name == "reference" else module.hop_slopes
            return [slopes(self.stack, self.weights, self.head.weight.double().cpu().numpy())]
        if kernel == "two passes":
            plain = partial(two_pass.classify, mix=module.mix)
            return getattr(module, "classify", plain)(self.stack, self.hop_weights, self.head)
        logits, sums = reference.hop_logits(self.stack, self.head.weight), mean * len(self.stack)
        bias = self.head.bias[:-1] - self.head.bias[-1]
        return module.Classifier(self.stack, logits, bias, sums)(self.hop_weights)

    def check(self, kernel, name):
        precision = 1e-11 if self.stack.dtype == torch.float64 else 5e-6
        for found, (wanted, size) in zip(self.found(kernel, name), self.exact(kernel), strict=True):
            found = torch.as_tensor(found).cpu().double()
            assert found.shape == wanted.shape
            apart = float((found - wanted).abs().max())
            assert apart <= precision * float(size.abs().max()), (kernel, apart)


def fast_kernels():
    for kernel, modules in KERNELS.items():
        for name in modules:
            for dtype in DTYPES[name]:
                if dtype not in HALF or kernel not in WIDE:
                    marks = NEEDS_TRITON if name == "gpu" else ()
                    title = f"{name} {kernel} {str(dtype)[6:]}"
                    yield pytest.param(kernel, name, dtype, marks=marks, id=title)


def small_blocks(monkeypatch):
    monkeypatch.setattr(cpu, "SUMMED", 10)
    monkeypatch.setattr(cpu, "GROUP", 3)
    monkeypatch.setattr(reference, "BLOCK", 7)
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], block_floats=5000))


@pytest.mark.parametrize(("kernel", "name", "dtype"), list(fast_kernels()))
def test_a_kernel_is_its_definition(kernel, name, dtype, monkeypatch):
    if name == "gpu":
        # The interpreter takes long.
        most = 70 if kernel == "gram" else 150
        for shape in (shape for shape in SHAPES if shape[0] <= most):
            Case.draw(shape, dtype, GPU).check(kernel, name)
        return
    for prepare in (lambda patch: None, small_blocks):
        prepare(monkeypatch)
        for shape in SHAPES:
            Case.draw(shape, dtype).check(kernel, name)


@pytest.mark.parametrize("name", ["cpu", pytest.param("gpu", marks=NEEDS_TRITON)])
def test_numbers_that_lie_in_another_order_are_read_right(name):
    case = Case.draw((50, 3, 5, 4), place=GPU if name == "gpu" else "cpu")
    turned = case.stack.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    case = replace(case, stack=turned, weights=case.weights.T.contiguous().T)
    assert not case.stack.is_contiguous()
    for kernel in (kernel for kernel, modules in KERNELS.items() if name in modules):
        case.check(kernel, name)


@pytest.mark.parametrize(
    ("name", "broken"),
    [*(("cpu", broken) for broken in (np.nan, np.inf, -np.inf))]
    + [pytest.param("gpu", np.nan, marks=NEEDS_TRITON)],
)
@pytest.mark.parametrize("classes", [2, 5])
def test_logits_that_are_not_finite_give_predictions_that_are_not(name, broken, classes):
    case = Case.draw((60, 3, 4, classes), place=GPU if name == "gpu" else "cpu")
    logits = reference.hop_logits(case.stack, case.head.weight)
    logits[1, 0, 17] = broken
    bias = case.head.bias[:-1] - case.head.bias[-1]
    classifier = MODULES[name].Classifier(case.stack, logits, bias, np.zeros((3, 4)))
    probs, sums, mass = classifier(case.hop_weights)
    assert probs[17].isnan().all()
    assert probs[np.arange(60) != 17].isfinite().all()
    assert np.isnan(sums).all()
    assert np.isnan(mass).all()


def test_no_nodes_have_sums_of_zero():
    stack = torch.empty(0, 3, 4)
    assert cpu.mix(stack, torch.ones(3)).shape == (0, 4)
    assert not cpu.class_sums(stack, torch.empty(0, 2)).any()
    assert not cpu.hop_slopes(stack, torch.empty(0, 2), np.ones((2, 4))).any()


def test_mix_keeps_gradients_where_they_are_asked_for():
    stack, hop_weights = torch.randn(5, 3, 2), torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(kernels.mix(stack, hop_weights).sum(), hop_weights)
    torch.testing.assert_close(gradient, stack.sum((0, 2)))


# The slope of σ²_inter, by whole sums or by two passes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_ways_give_the_gradient_of_autograd(shape, dtype, whole, monkeypatch):
    monkeypatch.setattr(kernels, "whole_sums_pay", lambda hops, classes, place: whole)
    case = Case.draw(shape, dtype)
    hops, c = Hops(case.stack), case.hop_weights.double().clone().requires_grad_()
    probs, sums, mass = hops.classify(case.hop_weights, case.head)
    assert isinstance(sums, MixedSums) is not whole
    found = hops.between_slope(c.detach().numpy(), probs, mass, sums, 1e-9)
    z = torch.einsum("nkd,k->nd", case.stack.double(), c)
    inter = functional.inter_variance(z, probs.double(), 1e-9)
    (wanted,) = torch.autograd.grad(inter, c)
    size = float(z.detach().square().sum())
    tolerance = 2e-4 if dtype == torch.float32 else 1e-10
    np.testing.assert_allclose(found / size, wanted.numpy() / 2 / size, atol=tolerance)


def test_a_class_without_mass_adds_nothing():
    case = Case.draw((50, 4, 6, 3), torch.float64)
    hops, c, probs = Hops(case.stack), case.hop_weights, case.weights.clone()
    probs[:, 1] = 0
    mixed = MixedSums(c.numpy(), two_pass.mixed_sums(case.stack, c, probs, reference.mix))
    found, whole = (
        hops.between_slope(c.numpy(), probs, probs.sum(0).numpy(), sums, 1e-9)
        for sums in (mixed, hops.class_sums(probs))
    )
    np.testing.assert_allclose(found, whole, rtol=1e-10)


# Products, messages and sums by label


@NEEDS_TRITON
@pytest.mark.parametrize("positions", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [1, 5, 33, 130])
def test_the_product_of_the_gpu_is_the_dense_one(width, positions):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 40, (2, 90), generator=generator)
    edges[1, :20] = 3
    matrix = Adjacency.normalised(edges.to(GPU), 40, None, torch.float32).matrix
    parts = matrix.crow_indices().to(positions), matrix.col_indices().to(positions)
    h, base = torch.randn(2, 40, width, generator=generator).to(GPU)
    for scale, added in ((1.0, None), (-0.3, base)):
        out = torch.empty_like(h)
        given = () if added is None else (scale, added)
        gpu.product(csr_of(*parts, matrix.values(), (40, 40)), h, out, *given)
        wanted = matrix.to_dense().double() @ h.double()
        wanted = wanted if added is None else wanted + scale * added.double()
        torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-6)


@NEEDS_TRITON
@pytest.mark.parametrize("num_classes", [2, 3, 5, 16])
@pytest.mark.parametrize("positions", [torch.int32, torch.int64])
def test_belief_messages_of_the_gpu_are_the_references(num_classes, positions):
    generator = torch.Generator().manual_seed(num_classes)
    edges = torch.randint(0, 90, (2, 400), generator=generator)
    edges[1, :150] = 7  # a hub; some nodes receive nothing
    links = Links.of(edges, 100)
    links = Links(links.crow.to(positions), links.sender.to(positions))
    sent, received = torch.randn(2, 100, num_classes, generator=generator).double()
    lift = torch.rand(num_classes, num_classes, generator=generator).double()
    message = BeliefMessage(lift)
    wanted = links.plain_sums(message, sent, received)
    parts = (each.to(GPU) for each in (links.crow, links.sender, lift, sent, received))
    found = gpu.message_sums(*parts).cpu()
    assert num_classes <= gpu.MAX_MESSAGE
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert (found[90:] == 0).all()


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_sums_by_label_are_those_of_a_loop(block, monkeypatch):
    monkeypatch.setitem(DEVICES, "cpu", replace(DEVICES["cpu"], block_floats=block))
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (50,), generator=generator)
    values = torch.randn(50, 2, generator=generator, dtype=torch.float64)
    wanted = torch.zeros(4, 2, dtype=torch.float64)
    for label, row in zip(labels.tolist(), values, strict=True):
        wanted[label] += row
    torch.testing.assert_close(sums_by_label(labels, values, 4), wanted)
    torch.testing.assert_close(by_products(labels, values, torch.zeros_like(wanted)), wanted)
    on_gpu = sums_by_label(labels.to(GPU), values.to(GPU), 4)
    torch.testing.assert_close(on_gpu.cpu(), wanted)


def test_everything_works_without_the_compiler():
    code = """
import sys
sys.modules["triton"] = None
import matcha_gnn as mg
graph = mg.datasets.csbm(num_nodes=300, num_features=16, shares=(0.1,) * 10, seed=0)
model = mg.GPRGNN(16, 10, hidden_channels=8, K=9)
mg.fit(model, graph, epochs=2)
for strategy in (None, mg.Matcha(lr=0.01, rounds=3)):
    assert mg.gamma.run(model, graph, strategy=strategy).probs.isfinite().all()
assert sys.modules["triton"] is None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
