"""Candidates that make the surest changes of the pool alone.

Few answers show that a model gains where it gains at most nodes that it changes. The pool may gain
at half of them and lose at a quarter, and then it takes many. Its surest changes are right more
often, and there are fewer of them, so fewer answers show that they do no harm.
"""

import torch
from torch import Tensor

from matcha_gnn.candidates import (
    SOURCE,
    Answer,
    AnsweringNetwork,
    Candidate,
    Proposal,
    Rating,
    surer,
)
from matcha_gnn.evidence.posterior import network_logs
from matcha_gnn.result import Result

PARTS = {"1/8": 1 / 8, "1/4": 1 / 4, "half": 1 / 2, "3/4": 3 / 4}
"""Shares of the pool's changes that the candidates make, by name."""


def margins(logs: Tensor, network: Tensor) -> dict[str, float]:
    """By how much a class must be more probable than the network's for each part of the changes.

    None where fewer than two labels would be kept or changed back, or where the pool is as sure of
    the next change as of the last one.

    Args:
        logs: log-probabilities of the pool, [N, C].
        network: those of the network, [N, C].

    Example:
        >>> first = torch.tensor([0.1, 0.4, 0.3, 0.45, 0.9])
        >>> pool = torch.stack([first, 1 - first], 1).log()
        >>> alone = torch.tensor([0.9, 0.1]).log().expand(5, 2)
        >>> {part: round(margin, 2) for part, margin in margins(pool, alone).items()}
        {'half': 0.3}
    """
    changed = logs.argmax(1) != network.argmax(1)
    rows, own = logs.exp()[changed], network.argmax(1)[changed]
    gains = (
        (rows.amax(1) - rows.gather(1, own[:, None])[:, 0]).double().sort(descending=True).values
    )
    kept = {part: int(share * len(gains)) for part, share in PARTS.items()}
    return {
        part: float(gains[number - 1 : number + 1].mean())
        for part, number in kept.items()
        if 2 <= number <= len(gains) - 2 and gains[number - 1] > gains[number]
    }


@torch.no_grad()
def surest_candidates(result: Result) -> tuple[Candidate, ...]:
    """The pool where it is surest, and the network elsewhere, for several shares of its changes.

    None where the evidence is not believed.

    Args:
        result: of `adapt`.
    """
    posterior, source = result.believed, result.candidates[0]
    pool = next((one.model for one in result.candidates if one.name == "pool"), None)
    answered = isinstance(source.model, AnsweringNetwork)
    if posterior is None or answered or not isinstance(pool, AnsweringNetwork):
        return ()
    logs = Answer("pool").log_probs(posterior, source.probs)
    network = network_logs(source.probs)
    rate = Rating(result.goal, posterior, Proposal(SOURCE, source.probs, source.model))
    candidates = []
    for part, margin in margins(logs, network).items():
        probs = surer(logs, network, margin).softmax(1)
        answering = AnsweringNetwork(source.model, pool.source, Answer("pool", margin=margin))
        candidates.append(rate(Proposal(f"surest {part} of pool", probs, answering)))
    return tuple(candidates)
