"""Candidates that make the surest changes of the pool alone.

Few answers show that a model gains where it gains at most nodes that it changes. The pool may gain
at half of them and lose at a quarter, and then it takes many. Its surest changes are right more
often, and there are fewer of them, so fewer answers show that they do no harm.
"""

import torch
from torch import Tensor

from matcha_gnn.evidence.belief_model import BeliefModel, network_probs, surer
from matcha_gnn.evidence.posterior import network_logs
from matcha_gnn.questions.further import further_candidate
from matcha_gnn.result import Adaptation, Candidate

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
def surest_candidates(result: Adaptation) -> tuple[Candidate, ...]:
    """The pool where it is surest, and the network elsewhere, for several shares of its changes.

    None where the evidence is not believed, or where a base method stands between the network and
    the source's labels.

    Args:
        result: of `Guarded`,.
    """
    decision = result.decision
    if decision is None or decision.believed is None:
        return ()
    source = decision.candidates[0]
    model = source.model.network if isinstance(source.model, BeliefModel) else source.model
    network = network_logs(network_probs(model, result.graph))
    if not torch.equal(network.argmax(1), source.probs.argmax(1)):
        return ()
    logs = BeliefModel(model, "pool").log_probs(decision.believed)
    network = network.to(logs)
    found = []
    for part, margin in margins(logs, network).items():
        surest = BeliefModel(model.copied(), "pool", margin=margin)
        probs = surer(logs, network, margin).softmax(1)
        name, evidence = f"surest {part} of pool", decision.believed
        found.append(further_candidate(name, surest, probs, source, evidence, decision.goal))
    return tuple(found)
