"""ERM: the source model's prediction, without adaptation by the base method."""

from matcha_gnn.gamma.methods.base import BaseMethod, Prediction, State, View


class ERM(BaseMethod):
    """Softmax of the source head on the current representation.

    Batch norm uses the statistics of the source, dropout is off.

    Example:
        >>> ERM().settings()
        {}
    """

    name = "erm"
    needs_hops = False
    keeps_state = False

    def predict(self, view: View, state: State) -> tuple[Prediction, State]:
        """The model's prediction; there is no state."""
        return view.classify(), state
