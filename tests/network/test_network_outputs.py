"""Outputs of networks as logits."""

from collections import namedtuple

import pytest
import torch

from matcha_gnn.network.calling import read_output

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [-3.0, 0.0, 4.0]])
Pair = namedtuple("Pair", ["hidden", "out"])


@pytest.mark.parametrize(
    "form",
    [
        lambda z: z,
        lambda z: z.log_softmax(1),
        lambda z: z.softmax(1),
        lambda z: (z, z[:1]),
        lambda z: [torch.tensor(1.0), z.softmax(1)],
        lambda z: Pair(torch.ones(1), z),
    ],
)
def test_every_form_is_read(form):
    logits = read_output("Net", form(LOGITS), 2, 7)
    torch.testing.assert_close(logits.softmax(1), LOGITS.softmax(1))


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("sigmoid", [False, True])
def test_one_column_is_two_classes(shape, sigmoid):
    logit = torch.tensor([-2.0, 0.5, 3.0])
    output = (logit.sigmoid() if sigmoid else logit).reshape(shape)
    logits = read_output("Net", output, 3, 7)
    torch.testing.assert_close(logits.softmax(1)[:, 1], logit.sigmoid())


def test_sure_probabilities_stay_finite():
    for output in (torch.tensor([0.0, 1.0]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])):
        logits = read_output("Net", output, 2, 0)
        assert logits.isfinite().all()
        assert logits.argmax(1).tolist() == [0, 1] if output.dim() == 1 else [1, 0]
