"""T3A against a plain run of its paper's steps, its options, its guards and its edges."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from matcha_gnn.gamma.methods.t3a import T3A
from matcha_gnn.graphs.memory import Graph


def view_of(z, weight, bias=None):
    """What T3A reads of a view, from given numbers."""
    head = nn.Linear(weight.shape[1], len(weight), bias=bias is not None).to(z.dtype)
    head.weight.data = weight.clone()
    if bias is not None:
        head.bias.data = bias.clone()
    head.requires_grad_(False)
    graph = Graph(z, torch.zeros(2, 0, dtype=torch.long))
    known = {"z": z, "logits": head(z), "model": SimpleNamespace(head=head), "graph": graph}
    return SimpleNamespace(**known, blocks=lambda: iter([(slice(0, len(z)), z)]))


def random_view(nodes=60, width=5, classes=3, seed=0, bias=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    z, weight = (
        torch.randn(rows, width, generator=generator, dtype=dtype) for rows in (nodes, classes)
    )
    offset = torch.randn(classes, generator=generator, dtype=dtype) if bias else None
    return view_of(z, weight, offset)


def probs_of(method, view):
    state = method.start(view, method.prepare(view))
    return method.predict(view, state)[0].probs


def plain_t3a(view, k):
    """Support by support, with Python's own stable sort."""
    head = view.model.head
    weight = head.weight.numpy()
    bias = np.zeros(len(weight)) if head.bias is None else head.bias.numpy()
    z = view.z.numpy()
    supports = []
    for number, vector in enumerate([*weight, *z]):
        logits = weight @ vector + bias
        probs = np.exp(logits - logits.max())
        probs /= probs.sum()
        label = number if number < len(weight) else int(logits.argmax())
        supports.append((-(probs * np.log(probs)).sum(), label, vector))
    logits = []
    for c in range(len(weight)):
        own = sorted((s for s in supports if s[1] == c), key=lambda s: s[0])
        kept = own if k == -1 else own[:k]
        total = sum(v / np.linalg.norm(v) for _, _, v in kept)
        logits.append(z @ (total / np.linalg.norm(total)))
    scores = np.exp(np.stack(logits, 1))
    return torch.from_numpy(scores / scores.sum(1, keepdims=True))


@pytest.mark.parametrize("k", [1, 2, 7, 25, 1000, -1])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_plain_form(k, seed):
    view = random_view(seed=seed)
    torch.testing.assert_close(probs_of(T3A(k), view), plain_t3a(view, k))


def test_surest_supports_are_the_rows_alone_and_give_a_cosine_classifier():
    rows = 30 * torch.tensor([[1.0, 0.2], [0.1, 1.0]], dtype=torch.float64)
    view = view_of(torch.randn(20, 2, dtype=torch.float64), rows)
    expected = (view.z @ nn.functional.normalize(rows).T).softmax(1)
    torch.testing.assert_close(probs_of(T3A(k=1), view), expected)


@pytest.mark.parametrize("k", [1, 5, -1])
def test_a_class_that_is_not_predicted_keeps_its_row(k):
    rows = torch.tensor([[-1.0, 0.0], [-0.9, -0.2], [0.0, 3.0]], dtype=torch.float64)
    z = torch.tensor([[1.0, -1.0], [2.0, -1.5], [1.5, -3.0]], dtype=torch.float64)
    view = view_of(z, rows)
    assert 2 not in view.logits.argmax(1)
    torch.testing.assert_close(T3A(k)._prototypes(view, T3A(k).prepare(view))[2], rows[2] / 3)
    torch.testing.assert_close(probs_of(T3A(k), view), plain_t3a(view, k))


def test_equal_entropies_are_taken_in_order_of_number():
    # Nodes 0 to 3 mirror one another about the axis of class 0, so their entropies are equal.
    z = torch.tensor([[2.0, 1.0, 1.0], [2.0, 1.0, -1.0], [2.0, -1.0, 1.0], [2.0, -1.0, -1.0]])
    rows = torch.tensor([[0.01, 0.0, 0.0], [-0.01, 0.0, 0.0]])
    first = probs_of(T3A(k=2), view_of(z.double(), rows.double()))
    prototype = nn.functional.normalize(nn.functional.normalize(z[:2].double()).sum(0), dim=0)
    row = torch.tensor([-1.0, 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(first[:, 0], (z.double() @ (prototype - row)).sigmoid())


def test_a_support_counts_by_its_direction_however_short():
    view = random_view(bias=False)
    short = view.z.clone()
    short[::2] *= 1e-6
    method, shorter = T3A(-1), view_of(short, view.model.head.weight)
    torch.testing.assert_close(
        method._prototypes(shorter, method.prepare(shorter)),
        method._prototypes(view, method.prepare(view)),
    )


def spread(logits):
    """Over classes, from probabilities or logits: softmax does not see what is subtracted."""
    return np.sqrt(np.mean((logits - logits.mean(1, keepdims=True)) ** 2))


@pytest.mark.parametrize("seed", range(3))
def test_the_models_scale_changes_the_spread_of_the_logits_and_no_label(seed):
    view = random_view(seed=seed)
    unit, scaled = (probs_of(T3A(scale=scale), view) for scale in ("unit", "model"))
    assert torch.equal(unit.argmax(1), scaled.argmax(1))
    logs = [probs.log().numpy() for probs in (unit, scaled)]
    assert spread(logs[1]) == pytest.approx(spread(view.logits.numpy()))
    centred = [log - log.mean(1, keepdims=True) for log in logs]
    np.testing.assert_allclose(centred[1], centred[0] * spread(logs[1]) / spread(logs[0]))
