"""GTrans (Jin et al., ICLR 2023): edit the target graph, not the model."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import override

from matcha_gnn.errors import (
    IncompatibleError,
    InvalidArgumentError,
    require_default,
    require_number,
    require_whole,
)
from matcha_gnn.gamma.methods.base import BaseMethod, Modifies, Prediction, Prepared, State, View
from matcha_gnn.gamma.methods.gtrans_editors import (
    FilterEditor,
    ForeignEditor,
    GraphEditor,
    LayersEditor,
)
from matcha_gnn.gamma.methods.settings import require_choice
from matcha_gnn.gamma.methods.whole import (
    ModifiedHops,
    Values,
    drifted_statistics,
    run_with,
    running_statistics,
)
from matcha_gnn.gamma.models import Backbone, FilterBackbone, LayeredBackbone
from matcha_gnn.gamma.models.gprgnn import NormedEncoder
from matcha_gnn.gamma.networks.added import AddedHops
from matcha_gnn.gamma.networks.wrap import Foreign
from matcha_gnn.network.calling import takes_edge_weight

LOOPS = {"features": 4, "edges": 1}
"""Steps on each in a round, as in the released script."""
ONLY_FOR = {"lr_feat": "features", "lr_adj": "edges", "ratio": "edges"}
"""Arguments that count only where one kind of edit is made."""


@dataclass(frozen=True)
class GTrans(BaseMethod):
    """Adds a learnt δ to the features and removes a budget of edges, then predicts.

    Both edits minimise a label-free loss: the representation Z should not change when some edges
    are dropped, and should change when the rows of the features are shuffled:
    L = d(Z_dropped, Z) − d(Z, Z_shuffled), with d the mean of 1 − cos over nodes.

    A round is four Adam steps on δ, then one step on p, the removal of each pair of joined nodes,
    which is projected onto {Σ p ≤ B, 0 < p < 1}. A step on p moves each entry `lr_adj` up or down:
    the released code uses a new Adam each time. In the end the B pairs of largest p, or a draw from
    p within the budget, are removed: the candidate of lowest loss.

    Reference: Jin et al., "Empowering Graph Representation Learning with Test-Time Graph
    Transformation", ICLR 2023. Defaults are those of the released script. Deviations: δ starts at
    0 instead of 1e-7, and pairs whose p was never raised are kept even if they are among the top B.

    Args:
        lr_feat: Adam's step size on δ.
        lr_adj: step size on p.
        epochs: steps in all, in full rounds; a remainder is left out.
        ratio: B as a share of the pairs of joined nodes.
        edit: "both", "features" or "edges"; a round has only the steps of what is edited, and
            arguments of the other steps are an error.
        refresh: "once" edits at the source γ; "each" edits again in every round of Matcha; a
            number R edits again every R rounds, which needs `Matcha(restart=False)`. Once is the
            default as an edit costs many inferences, and a round of Matcha much less than one.
        drift: passes over the target with the batch norm in training mode, before the edit: each
            moves the running statistics one momentum step towards the target's. Edit and prediction
            use these. The published runs seem to have had some; see
            paper/docs/methods/gtrans.md.

    Example:
        >>> import matcha_gnn as mg
        >>> graph = mg.datasets.csbm(num_nodes=100, num_features=8, seed=0)
        >>> result = mg.predict(mg.GPRGNN(8, 2), graph, GTrans(epochs=5))
        >>> result.probs.shape
        torch.Size([100, 2])
    """

    name = "gtrans"
    draws_at_random = True

    lr_feat: float = 1e-3
    lr_adj: float = 0.1
    epochs: int = 50
    ratio: float = 0.1
    edit: str = "both"
    refresh: str | int = "once"
    drift: int = 0

    def __post_init__(self) -> None:
        require_number("lr_feat", self.lr_feat, above=0)
        require_number("lr_adj", self.lr_adj, above=0)
        require_number("ratio", self.ratio, least=0, most=1)
        require_whole("drift", self.drift, least=0)
        require_choice("edit", self.edit, ("both", *LOOPS))
        for name, what in ONLY_FOR.items():
            if self.edit not in ("both", what):
                unless = f"edit is both or {what}"
                require_default(name, getattr(self, name), getattr(GTrans, name), unless)
        if not isinstance(self.refresh, str):
            require_whole("refresh", self.refresh, least=1)
        elif self.refresh not in ("once", "each"):
            allowed = "once, each or an integer >= 1"
            raise InvalidArgumentError("refresh", repr(self.refresh), allowed)
        require_whole("epochs", self.epochs, least=0)
        if 0 < self.epochs < self._round:
            allowed = f"0, or an integer >= {self._round}, the steps of one round"
            raise InvalidArgumentError("epochs", repr(self.epochs), allowed)

    def _steps(self, what: str) -> int:
        """How many steps of a round are on "features", or on "edges"."""
        return LOOPS[what] if self.edit in ("both", what) else 0

    @property
    def _round(self) -> int:
        return sum(map(self._steps, LOOPS))

    def edits(self, what: str) -> bool:
        """Whether there are steps on "features", or on "edges"."""
        return bool(self.epochs and self._steps(what))

    @property
    def modifies(self) -> frozenset[Modifies]:
        """Features and edges, and the norm where its statistics drift."""
        edited = frozenset({Modifies.FEATURES, Modifies.EDGES})
        return edited | {Modifies.NORM} if self.drift else edited

    @override
    def require(self, model: Backbone) -> None:
        if self.drift and not running_statistics(model):
            raise IncompatibleError(
                f"gtrans: {model.name} has no batch norm with statistics to drift"
            )
        if not isinstance(model, Foreign | LayeredBackbone):
            raise IncompatibleError(
                f"GTrans does not support {model.name}: it is no LayeredBackbone or FilterBackbone"
            )
        if isinstance(model, Foreign) and self.edits("edges"):
            instead = 'use edit="features"'
            if not takes_edge_weight(model.net):
                raise IncompatibleError(f"GTrans: {model.name} takes no edge weights; {instead}")
            if isinstance(model, AddedHops):
                raise IncompatibleError(f"GTrans: added hops have no gradient in edges; {instead}")

    def prepare(self, view: View) -> Prepared:
        """The edit at the source γ, unless every round edits again."""
        return None if self.refresh in ("each", 1) else self.edited(view)

    def start(self, view: View, prepared: Prepared) -> State:
        """The first edit; refused after γ has moved, as it would undo a later edit."""
        counts_rounds = prepared is not None and self.refresh != "once"
        if counts_rounds and not torch.equal(view.gamma, prepared.gamma):
            raise IncompatibleError(
                f"GTrans(refresh={self.refresh}) needs the state of earlier rounds: call adapt "
                "with restart=False"
            )
        return prepared

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The model's prediction on the edited graph; the state is the edit and its age."""
        edit = self.edited(view) if state is None or state.age == self.refresh else state
        hops = edit.target.hops_at(view)
        probs, sums, mass = hops.classify(view.hop_weights, view.model.head)
        prediction = Prediction(probs, hops, mass=mass, class_sums=(hops, sums))
        return prediction, None if state is None else replace(edit, age=edit.age + 1)

    @torch.no_grad()
    def edited(self, view: View) -> "EditedGraph":
        """Edit the view's graph at its γ, always from the graph as it was given."""
        drifted = drifted_statistics(view, self.drift) if self.drift else {}
        return run_with(view.model, drifted, lambda _: self._edited(view, drifted))

    def _edited(self, view: View, drifted: Values) -> "EditedGraph":
        editor = editor_of(self, view)
        for _ in range(self.epochs // self._round):
            for _ in range(self._steps("features")):
                editor.feature_step()
            for _ in range(self._steps("edges")):
                editor.edge_step()
        removed = editor.final_edges()
        target = ModifiedHops(view, editor.edited(removed), drifted)
        return EditedGraph(target, removed > 0, view.gamma)


@dataclass(frozen=True, eq=False)
class EditedGraph:
    """The result of an edit.

    Attributes:
        target: the model's hops on edited features and edges.
        removed: pairs, as `numbered_pairs` numbers them, that were removed, bool [pairs].
        gamma: γ of the edit.
        age: predictions made with it so far.
    """

    target: ModifiedHops
    removed: Tensor
    gamma: Tensor
    age: int = 0


def editor_of(method: GTrans, view: View) -> GraphEditor:
    """The fastest editor for this model."""
    model = view.model
    if isinstance(model, Foreign):
        return ForeignEditor(method, view)
    enters_linearly = isinstance(model, NormedEncoder) and model.has_published("before_norm")
    if isinstance(model, FilterBackbone) and (enters_linearly or not method.edits("features")):
        return FilterEditor(method, view, model)
    return LayersEditor(method, view)
