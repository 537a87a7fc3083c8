"""Theorem 4.1 of the paper, on which step size brings gradients of γ down, and its lemma for ERM.

The representation is z = M γ, where the columns of M are the hops. Matcha moves γ down the PIC loss
as if predictions did not depend on it. The theorem bounds the true gradients of its first T rounds
by what is left of a smooth loss, plus what is neglected:

    1/T Σ_{t<T} |∇L(γ_t)|² <= 2 β |M|² L(γ_0) / T + (L_1 L_2)² |M|²,    step 1 / (β |M|²)

β is the smoothness of the loss in z, and L_1 L_2 bounds its gradient through the predictions. For a
linear classifier with softmax, W its weights, the lemma gives L_1 L_2 <= 2 |W|.

The paper assumes β and does not derive it. `smoothness` measures it at one z; the theorem holds
for a run where β is at least that everywhere between the γ that it visits.
"""

import torch
from torch import Tensor

from matcha_gnn.errors import require_number, require_whole
from matcha_gnn.gamma.functional import pic
from matcha_gnn.gamma.losses import PIC
from matcha_gnn.streams import Purpose, torch_stream
from matcha_gnn.typing import HopStack, Repr

__all__ = ["gradient_bound", "lipschitz", "own_pic", "smoothness", "squared_norm", "theorem_step"]


def squared_norm(stack: HopStack) -> float:
    """|M|², the largest eigenvalue of the products of the hops with each other.

    Args:
        stack: hops, [N, K+1, D].

    Example:
        >>> squared_norm(torch.ones(3, 1, 2))
        6.0
    """
    matrix = stack.double().transpose(0, 1).flatten(1)
    return float(torch.linalg.eigvalsh(matrix @ matrix.T)[-1])


def theorem_step(stack: HopStack, beta: float) -> float:
    """The step size of Theorem 4.1, 1 / (β |M|²).

    Args:
        stack: hops, [N, K+1, D].
        beta: smoothness of the loss in z, > 0.

    Example:
        >>> theorem_step(torch.ones(2, 1, 2), beta=0.5)
        0.5
    """
    require_number("beta", beta, above=0)
    return 1 / (beta * squared_norm(stack))


def gradient_bound(
    stack: HopStack, beta: float, loss: float, rounds: int, lipschitz: float
) -> float:
    """What Theorem 4.1 allows the mean of |∇L|² over the first rounds to be.

    Args:
        stack: hops, [N, K+1, D].
        beta: smoothness of the loss in z, > 0.
        loss: before the first round.
        rounds: T, at least 1.
        lipschitz: L_1 L_2, see `lipschitz`.

    Example:
        >>> gradient_bound(torch.ones(2, 1, 2), beta=0.5, loss=0.8, rounds=4, lipschitz=0.1)
        0.84
    """
    require_number("beta", beta, above=0)
    require_whole("rounds", rounds, least=1)
    norm = squared_norm(stack)
    return round(2 * beta * norm * loss / rounds + lipschitz**2 * norm, 12)


def lipschitz(weight: Tensor) -> float:
    """2 |W|: how much PIC changes at most with a linear classifier's input, by the lemma for ERM.

    Its proof gives 2 |W| times the loss, which is at most 1.

    Args:
        weight: of the classifier, [C, D].

    Example:
        >>> lipschitz(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
        6.0
    """
    return 2 * float(torch.linalg.matrix_norm(weight.double(), ord=2))


def own_pic(z: Repr, weight: Tensor, bias: Tensor | None = None, through: bool = True) -> Tensor:
    """PIC of a representation with the predictions that a linear classifier makes from it.

    Args:
        z: representation, [N, D].
        weight: of the classifier, [C, D].
        bias: of the classifier, [C].
        through: let gradients go through the predictions; Matcha does not.
    """
    probs = torch.nn.functional.linear(z, weight, bias).softmax(1)
    return pic(z, probs if through else probs.detach(), PIC().min_share)


def smoothness(z: Repr, weight: Tensor, bias: Tensor | None = None, iterations: int = 50) -> float:
    """β at one representation: the largest second derivative of `own_pic`, in absolute value.

    By power iteration, from below; no matrix of second derivatives is made.

    Args:
        z: representation, [N, D].
        weight: of the classifier, [C, D].
        bias: of the classifier, [C].
        iterations: products with the second derivatives.

    Example:
        The same predictions from a representation of twice the size:

        >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], dtype=torch.float64)
        >>> weight = torch.eye(2, dtype=torch.float64)
        >>> round(smoothness(z, weight) / smoothness(2 * z, weight / 2), 2)
        4.0
    """
    require_whole("iterations", iterations, least=1)
    point = z.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(own_pic(point, weight, bias), point, create_graph=True)
    generator = torch_stream(0, Purpose.POWER_ITERATION)
    direction = torch.randn(z.shape, generator=generator, dtype=z.dtype).to(z.device)
    found = 0.0
    for _ in range(iterations):
        direction = direction / direction.norm()
        (direction,) = torch.autograd.grad(slope, point, direction, retain_graph=True)
        found = float(direction.norm())
    return found
