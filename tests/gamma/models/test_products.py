"""The product of features and the first weight, against the product itself."""

import pytest
import torch

import matcha_gnn as mg
from matcha_gnn.gamma.models import products
from matcha_gnn.gamma.models.products import bias_apart


def test_an_encoder_gives_the_same_hops_from_a_bias_apart():
    graph = mg.unlabelled(mg.datasets.csbm(200, 16, seed=0))
    model = mg.GPRGNN(16, 2, hidden_channels=4, K=2)
    with torch.no_grad():
        model.norm.running_mean.normal_()
        model.norm.running_var.uniform_(0.5, 2)
        model.norm.weight.normal_()
    model = model.frozen()
    hops, logits = model.hops(graph).stack, model.node_logits(graph)
    with bias_apart():
        torch.testing.assert_close(model.node_logits(graph), logits)
        torch.testing.assert_close(model.hops(graph).stack, hops)


@pytest.mark.parametrize("block", [1, 12, 1 << 19])
def test_a_product_by_blocks_of_rows_is_the_product(block, monkeypatch):
    monkeypatch.setattr(products, "_BLOCK", block)
    x, weight, bias = torch.randn(7, 4), torch.randn(3, 4), torch.randn(3)
    torch.testing.assert_close(products.dense_product(x, weight, bias), x @ weight.T + bias)
