"""Candidates that are fitted to answers."""

from collections.abc import Mapping

import torch

from matcha_gnn.evidence import infer
from matcha_gnn.evidence.belief_model import BeliefModel, network_probs
from matcha_gnn.evidence.goals import Goal
from matcha_gnn.evidence.posterior import network_logs
from matcha_gnn.evidence.weighing import fit_biased_pool
from matcha_gnn.graphs.base import BaseGraph
from matcha_gnn.questions.decision import FITTED_AT
from matcha_gnn.questions.further import further_candidate
from matcha_gnn.questions.sampling import IntArray
from matcha_gnn.result import Candidate


def complete_starts(asked: IntArray, answers: Mapping[int, int]) -> list[int]:
    """After how many questions candidates can be fitted: all before must have an answer.

    Otherwise it could depend on later questions which answers a candidate was fitted to, and the
    test would not hold.

    Example:
        >>> import numpy as np
        >>> complete_starts(np.arange(60), dict.fromkeys(range(49), 0))
        [20]
    """
    given = [node in answers for node in asked.tolist()]
    return [start for start in FITTED_AT if len(given) >= start and all(given[:start])]


@torch.no_grad()
def fitted_candidates(
    source: Candidate,
    graph: BaseGraph,
    asked: IntArray,
    answers: Mapping[int, int],
    goal: Goal,
    believed: bool,
) -> dict[int, Candidate]:
    """The pool of evidence and network, fitted to the answers of the first questions, by number.

    Args:
        source: the source model and its predictions; without a source summary nothing is fitted.
        graph: that was asked about.
        asked: nodes in the order of the questions, [T].
        answers: true class by node.
        goal: the metric that candidates are compared by.
        believed: whether the evidence can tell it.
    """
    assert source.model is not None
    starts = complete_starts(asked, answers)
    model = source.model.network if isinstance(source.model, BeliefModel) else source.model
    if not starts or model.source is None:
        return {}
    network = network_probs(model, graph)
    posterior = infer(model, graph, network)
    evidence = posterior.gathered.weighted(posterior.source)
    found = dict[int, Candidate]()
    for start in starts:
        nodes = torch.from_numpy(asked[:start]).to(evidence.device)
        pool = fit_biased_pool(
            evidence[nodes].cpu(),
            network_logs(network[nodes]).cpu(),
            torch.tensor([answers[node] for node in asked[:start].tolist()]),
            posterior.source.pool_weights,
        )
        fitted = BeliefModel(model.copied(), "pool", pool)
        probs = posterior.pooled(network, pool).to(fitted.gamma).softmax(1)
        name, rated_by = f"fitted to {start} answers", posterior if believed else None
        found[start] = further_candidate(name, fitted, probs, source, rated_by, goal)
    return found
