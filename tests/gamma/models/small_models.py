"""A small graph, and gradients of a model and its twin in double precision."""

import torch

NODES, FEATURES, CLASSES, WIDTH = 20, 7, 3, 5


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def directed_edges():
    return torch.randint(NODES, (2, 60), generator=torch.Generator().manual_seed(1))


def weights():
    return torch.rand(60, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def randomised(model):
    """In double precision, every parameter and running statistic away from its start."""
    torch.manual_seed(3)
    model = model.double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "gamma":
                parameter.copy_(torch.randn_like(parameter) / 2)
        for norm in (m for m in model.modules() if isinstance(m, torch.nn.BatchNorm1d)):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return model.eval()


def assert_same(ours, twin, parameters):
    """Two scalars-to-be agree in value, and in the gradient of each parameter, to 1e-6."""
    torch.testing.assert_close(ours, twin, rtol=0, atol=1e-6)
    mark = draw(*ours.shape, seed=9)
    ours = torch.autograd.grad((ours * mark).sum(), parameters)
    twin = torch.autograd.grad((twin * mark).sum(), parameters)
    for a, b in zip(ours, twin, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
