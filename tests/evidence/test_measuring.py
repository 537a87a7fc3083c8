"""What is measured of features, edges and network on held-out nodes."""

import pytest
import torch

from matcha_gnn.evidence.measuring import _information


def test_information_is_the_share_of_the_entropy_that_is_removed():
    labels = torch.tensor([0, 0, 0, 1])
    shares = torch.tensor([0.75, 0.25]).double()
    assert _information(shares.log().expand(4, 2), labels) == pytest.approx(0)
    certain = torch.nn.functional.one_hot(labels).double().clamp_min(1e-12).log()
    assert _information(certain, labels) == pytest.approx(1)
