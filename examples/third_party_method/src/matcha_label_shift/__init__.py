"""A base method that another package brings: predictions corrected for other class shares."""

import torch

import matcha_gnn as mg


class LabelShift(mg.BaseMethod):
    """Expectation maximisation of the target's class shares (Saerens et al., 2002).

    Predictions p(c | x) of the source model are weighted by the ratio of class shares, target to
    source, and renormalised; the target's shares are the mean of the outcome.

    Args:
        iterations: rounds of weighting and averaging.
    """

    name = "label_shift"

    def __init__(self, iterations: int = 50) -> None:
        self.iterations = iterations

    def require(self, model: mg.Backbone) -> None:
        """The source's class shares are in its summary."""
        if model.source is None:
            raise mg.IncompatibleError("label_shift: needs a model with a source summary")

    def predict(self, view: mg.View, state: None) -> tuple[mg.Prediction, None]:
        """Weighted predictions at the view's γ."""
        probs = view.logits.softmax(-1)
        prior = view.model.source.class_prior.to(probs).clamp_min(1e-6)
        weighted, shares = probs, prior
        for _ in range(self.iterations):
            weighted = torch.nn.functional.normalize(probs * (shares / prior), p=1, dim=1)
            shares = weighted.mean(0)
        return mg.Prediction(weighted), None
