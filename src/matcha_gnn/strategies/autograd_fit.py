"""γ that agrees best with given probabilities, for models that are not linear in cached hops."""

import torch
from torch import Tensor

from matcha_gnn.strategies.run import Run
from matcha_gnn.typing import Probs

STEPS, EVALUATIONS = 10, 20
"""Of L-BFGS, and how often the model runs for them."""


def fit_by_autograd(run: Run, targets: Probs) -> Tensor:
    """Minimise the cross entropy between `targets` and the model's softmax.

    A scale of the logits is fitted beside γ and then discarded, as in `fit_hop_weights`: otherwise
    γ would change only to make predictions less confident.

    Args:
        run: of the model to start from; it is not changed.
        targets: probabilities to agree with, [N, C].

    Returns:
        The γ with the least cross entropy among those tried; the model's own where none is finite.
    """
    best = run.gamma.detach().clone()
    gamma = best.clone().requires_grad_(True)
    scale = gamma.new_zeros(()).requires_grad_(True)
    search = torch.optim.LBFGS(
        [gamma, scale], max_iter=STEPS, max_eval=EVALUATIONS, line_search_fn="strong_wolfe"
    )
    wanted = targets.to(best)
    least = float("inf")

    def cross_entropy() -> Tensor:
        nonlocal best, least
        search.zero_grad()
        with torch.enable_grad():
            logits = scale.exp() * run.logits_at(gamma)
            value = -(wanted * logits.log_softmax(1)).sum(1).mean()
        value.backward()  # type: ignore[no-untyped-call]
        if float(value.detach()) < least:
            best, least = gamma.detach().clone(), float(value.detach())
        return value

    search.step(cross_entropy)  # type: ignore[no-untyped-call]
    return best
