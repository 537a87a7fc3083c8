"""The Triton kernels agree with the reference: on a GPU where there is one, else interpreted."""

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: the plain kernels run instead")

from matcha_gnn.kernels import Adjacency, gpu, reference, two_pass
from matcha_gnn.kernels.by_label import sums_by_label
from matcha_gnn.kernels.links import BeliefMessage, Links
from matcha_gnn.kernels.sparse import csr_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(1, 1, 1, 2), (7, 3, 5, 3), (66, 10, 32, 2), (70, 4, 33, 17)]


CLASSES = [2, 3, 17, 33, 40, 41, 91, 100]


def draw(num_nodes, num_hops, width, num_classes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(num_nodes)
    stack = torch.randn(num_nodes, num_hops, width, generator=generator) + 0.3
    head = torch.nn.Linear(width, num_classes).requires_grad_(False)
    hop_weights = torch.rand(num_hops, generator=generator)
    return stack.to(DEVICE, dtype), head.to(DEVICE), hop_weights.to(DEVICE)


def assert_close(found, wanted, size=None):
    """Up to rounding in single precision, beside numbers of some size: their own by default."""
    found, wanted = (np.asarray(torch.as_tensor(a).double().cpu()) for a in (found, wanted))
    assert found.shape == wanted.shape
    size = max(np.abs(wanted).max(), 1e-30) if size is None else size
    assert np.abs(found - wanted).max() <= 2e-6 * size


@pytest.mark.parametrize("shape", SHAPES)
def test_one_pass_equals_the_definition_in_double_precision(shape):
    stack, head, hop_weights = draw(*shape)
    bias = head.bias[:-1] - head.bias[-1]
    logits, sums = reference.hop_logits(stack, head.weight), reference.node_sums(stack.double())
    found = gpu.Classifier(stack, logits, bias, sums)(hop_weights)
    wanted = reference.Classifier(stack.double(), logits.double(), bias.double(), sums)(
        hop_weights.double()
    )
    assert_close(found[0], wanted[0])
    assert_close(found[1][:-1], wanted[1][:-1], size=np.abs(wanted[1]).max())
    # What the sums of the other classes leave of all nodes: their errors add up in it.
    assert_close(found[1][-1], wanted[1][-1], size=np.abs(sums).max())
    assert_close(found[2], wanted[2])


@pytest.mark.parametrize("num_classes", CLASSES)
def test_one_pass_takes_any_number_of_classes(num_classes):
    test_one_pass_equals_the_definition_in_double_precision((150, 2, 6, num_classes))


@pytest.mark.parametrize("shape", SHAPES)
def test_two_passes_equal_the_definition_in_double_precision(shape):
    stack, head, hop_weights = draw(*shape)
    assert gpu.fits(stack, shape[3])
    found = gpu.classify(stack, hop_weights, head)
    plain = two_pass.classify(stack, hop_weights, head, gpu.mix)
    slopes = gpu.hop_slopes(stack, found[0], plain[1])
    exact = stack.double(), hop_weights.double(), head.double()
    wanted = two_pass.classify(*exact, reference.mix)
    for a, b, c in zip(found, plain, wanted, strict=True):
        assert_close(a, c)
        assert_close(b, c)
    assert_close(slopes, two_pass.hop_slopes(exact[0], wanted[0], wanted[1], reference.hop_dots))


def test_tensors_whose_numbers_lie_in_another_order_are_read_right():
    stack, head, hop_weights = draw(50, 3, 5, 4)
    turned = stack.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    probs = torch.rand(50, 4, device=DEVICE)
    columns = probs.T.contiguous().T
    assert not turned.is_contiguous()
    assert not columns.is_contiguous()
    along, mean = np.ones((4, 5)), np.zeros((3, 5))
    logits, sums = reference.hop_logits(stack, head.weight), reference.node_sums(stack)
    bias = head.bias[:-1] - head.bias[-1]
    for run in (
        lambda stack, probs: gpu.mix(stack, hop_weights),
        gpu.class_sums,
        lambda stack, probs: gpu.gram(stack, mean),
        lambda stack, probs: gpu.classify(stack, hop_weights, head)[0],
        lambda stack, probs: gpu.hop_slopes(stack, probs, along),
        lambda stack, probs: gpu.Classifier(stack, logits, bias, sums)(hop_weights)[1],
    ):
        assert_close(run(turned, columns), run(stack, probs))


@pytest.mark.parametrize("num_classes", CLASSES[:-2])
def test_two_passes_take_up_to_64_classes(num_classes):
    test_two_passes_equal_the_definition_in_double_precision((150, 2, 6, num_classes))


def test_a_head_without_bias_is_classified_as_by_torch():
    stack, _, hop_weights = draw(33, 3, 5, 4)
    head = torch.nn.Linear(5, 4, bias=False, device=DEVICE).requires_grad_(False)
    for a, b in zip(
        gpu.classify(stack, hop_weights, head),
        two_pass.classify(stack, hop_weights, head, reference.mix),
        strict=True,
    ):
        assert_close(a, b)


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_forms_equal_the_definition_in_double_precision(shape):
    stack, _, hop_weights = draw(*shape)
    exact, weights = stack.double(), torch.rand(shape[0], shape[3], device=DEVICE)
    mean = reference.node_sums(exact) / shape[0]
    assert_close(gpu.mix(stack, hop_weights), reference.mix(exact, hop_weights.double()))
    assert_close(gpu.class_sums(stack, weights), reference.class_sums(exact, weights.double()))
    spread = np.abs(np.einsum("nkd,nld->kl", exact.cpu(), exact.cpu())).max()
    assert np.abs(gpu.gram(stack, mean) - reference.gram(exact, mean)).max() <= 1e-6 * spread


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_hops_in_half_precision_are_summed_in_single(dtype):
    stack, head, hop_weights = draw(66, 5, 16, 3, dtype)
    weights = torch.rand(66, 3, device=DEVICE)
    exact = stack.double()
    assert_close(gpu.class_sums(stack, weights), reference.class_sums(exact, weights.double()))
    assert_close(gpu.mix(stack, hop_weights), reference.mix(exact, hop_weights.double()))
    found = gpu.classify(stack, hop_weights, head)
    wanted = two_pass.classify(exact, hop_weights.double(), head.double(), reference.mix)
    for ours, theirs in zip(found, wanted, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("num_hops", [0, 1, 3])
def test_hops_equal_the_powers_of_the_matrix(num_hops):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 40, (2, 90), generator=generator)
    edges[1, :20] = 3
    adjacency = Adjacency.normalised(edges.to(DEVICE), 40, None, torch.float32)
    stack = torch.zeros(40, num_hops + 1, 5, device=DEVICE)
    stack[:, 0] = torch.randn(40, 5, generator=generator)
    for hop in range(1, num_hops + 1):
        gpu.product(adjacency.matrix, stack[:, hop - 1], stack[:, hop])
    dense = adjacency.matrix.to_dense().double()
    for k in range(num_hops + 1):
        assert_close(stack[:, k], torch.linalg.matrix_power(dense, k) @ stack[:, 0].double())


@pytest.mark.parametrize("positions", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [1, 5, 33, 130])
def test_a_step_of_horners_rule_equals_the_dense_product(width, positions):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 40, (2, 90), generator=generator).to(DEVICE)
    matrix = Adjacency.normalised(edges, 40, None, torch.float32).matrix
    parts = matrix.crow_indices().to(positions), matrix.col_indices().to(positions)
    h, base = torch.randn(2, 40, width, generator=generator).to(DEVICE)
    out = torch.empty_like(h)
    gpu.product(csr_of(*parts, matrix.values(), (40, 40)), h, out, -0.3, base)
    assert_close(out, matrix.to_dense().double() @ h.double() - 0.3 * base.double())


def test_logits_that_are_not_finite_give_predictions_that_are_not():
    stack, head, hop_weights = draw(20, 3, 4, 2)
    logits = reference.hop_logits(stack, head.weight)
    logits[1, 0, 17] = float("nan")
    bias = head.bias[:-1] - head.bias[-1]
    probs, sums, mass = gpu.Classifier(stack, logits, bias, reference.node_sums(stack))(hop_weights)
    assert probs[17].isnan().all()
    assert probs[:17].isfinite().all()
    assert np.isnan(sums).all()
    assert np.isnan(mass).all()


@pytest.mark.parametrize("num_classes", [2, 3, 5, 16])
@pytest.mark.parametrize("positions", [torch.int32, torch.int64])
def test_belief_messages_equal_the_reference(num_classes, positions):
    generator = torch.Generator().manual_seed(num_classes)
    edges = torch.randint(0, 90, (2, 400), generator=generator)
    edges[1, :150] = 7  # a hub; some nodes receive nothing
    links = Links.of(edges, 100)
    links = Links(links.crow.to(positions), links.sender.to(positions))
    sent, received = torch.randn(2, 100, num_classes, generator=generator).double()
    lift = torch.rand(num_classes, num_classes, generator=generator).double()
    message = BeliefMessage(lift)
    wanted = links.message_sums(lambda *ends: message(*ends), sent, received)
    parts = (each.to(DEVICE) for each in (links.crow, links.sender, lift, sent, received))
    found = gpu.message_sums(*parts).cpu()
    assert num_classes <= gpu.MAX_MESSAGE
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert (found[90:] == 0).all()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_sums_by_label_equal_the_reference():
    labels = torch.randint(0, 5, (1000,), generator=torch.Generator().manual_seed(0))
    values = torch.randn(1000, 5, dtype=torch.float64)
    found = sums_by_label(labels.to(DEVICE), values.to(DEVICE), 6)
    torch.testing.assert_close(found.cpu(), sums_by_label(labels, values, 6))
    assert torch.equal(found, sums_by_label(labels.to(DEVICE), values.to(DEVICE), 6))
