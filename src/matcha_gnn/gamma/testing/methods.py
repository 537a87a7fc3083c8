"""Checks for base methods."""

import torch

from matcha_gnn.errors import MatchaError, NonFiniteError
from matcha_gnn.gamma.methods import BaseMethod, Modifies, Prediction, State, View
from matcha_gnn.gamma.models import Backbone
from matcha_gnn.gamma.running import predict, run
from matcha_gnn.gamma.strategies import Matcha, Strategy, Unadapted
from matcha_gnn.gamma.testing.checks import check_run
from matcha_gnn.gamma.testing.graphs import (
    awkward_graphs,
    permuted,
    snapshot,
    tiny_graph,
    trained_model,
)

ROUNDS = 3


def check_method(method: BaseMethod, model: Backbone | None = None) -> None:
    """Run every check that a base method must pass, alone and inside Matcha.

    Args:
        method: the method, ready to use.
        model: a trained three-class model for 6 features that has what the method needs; by
            default a small GPRGNN with the method's source state.

    Raises:
        AssertionError: says what was expected.
    """
    model = trained_model(methods=[method]) if model is None else model
    assert all(isinstance(m, Modifies) for m in method.modifies), "modifies holds Modifies only"
    for strategy in (Unadapted(), Matcha(rounds=ROUNDS)):
        check_run(method, model, strategy)
        if not method.draws_at_random:
            _check_permutation(method, model, strategy)
        _check_awkward_graphs(method, model, strategy)
    _check_only_gamma_moved(method, model)
    _check_view_untouched(method, model)


def _check_permutation(method: BaseMethod, model: Backbone, strategy: Strategy) -> None:
    graph = tiny_graph()
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    straight = run(model, graph, method, strategy).probs
    renumbered = run(model, permuted(graph, order), method, strategy).probs
    same = torch.allclose(renumbered, straight[order], atol=1e-4, rtol=1e-3)
    assert same, "renumbering nodes should renumber the prediction"


def _check_awkward_graphs(method: BaseMethod, model: Backbone, strategy: Strategy) -> None:
    for name, graph in awkward_graphs().items():
        try:
            probs = run(model, graph, method, strategy).probs
        except NonFiniteError as error:
            raise AssertionError(f"{name}: probabilities should be finite") from error
        except MatchaError:
            continue
        total = float((probs.sum(1) - 1).abs().max())
        assert total < 1e-4, f"{name}: rows should sum to one"


def _check_only_gamma_moved(method: BaseMethod, model: Backbone) -> None:
    result, before = run(model, tiny_graph(), method, Matcha(rounds=ROUNDS)), model.state_dict()
    moved = {n for n, part in result.model.state_dict().items() if not part.equal(before[n])}
    assert moved <= {"gamma"}, f"only gamma should move in the adapted model, not {moved}"


def _check_view_untouched(method: BaseMethod, model: Backbone) -> None:
    graph = tiny_graph()
    seen: list[tuple[View, list[torch.Tensor]]] = []

    class Watched(type(method)):  # type: ignore[misc]
        def predict(self, view: View, state: State) -> tuple[Prediction, State]:
            seen.append((view, [*snapshot(view.model, graph), view.hops.stack.clone()]))
            return super().predict(view, state)  # type: ignore[no-any-return]

    watched = Watched.__new__(Watched)
    watched.__dict__.update(method.__dict__)
    predict(model, graph, watched)
    for view, before in seen[:1]:
        after = [*snapshot(view.model, graph), view.hops.stack]
        same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        assert same, "a method should not change the view's model or hops"
