"""Why is GraphPatcher alone so good on Syn-Cora? Source and target deal out the same feature rows.

A patcher learns to give a node the prediction that it has on the source graph, and sees the node's
features. Half of the unlabelled rows are taken off the source graph before training; on the target
the rows that the patcher has met are then compared with those it has not. Run 2, seed 10.

Run: python -m matcha_paper.studies.shared_rows
Prints accuracy in % over both kinds of test nodes, for APPNP alone and with 1 and 5 patches.
"""

import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

import matcha_gnn as mg
from matcha_gnn.metrics import accuracy
from matcha_paper.datasets import syn_cora
from matcha_paper.studies.shared import arguments, run_study

RUN, SEED = 2, 10


def halved(source: Data) -> Data:
    """The source graph without half of its unlabelled nodes."""
    drawn = torch.rand(source.num_nodes, generator=torch.Generator().manual_seed(0))
    kept = (source.train_mask | (drawn < 0.5)).nonzero().squeeze(1)
    edges, _ = subgraph(kept, source.edge_index, relabel_nodes=True, num_nodes=source.num_nodes)
    y, mask = source.y[kept], source.train_mask[kept]
    return Data(x=source.x[kept], edge_index=edges, y=y, train_mask=mask)


def main() -> None:
    """Print accuracy over rows that the patcher has met, and over the others."""
    arguments(__doc__).parse_args()
    domains = syn_cora(run=RUN)
    source, target = halved(domains.source), domains.target
    model = mg.APPNP(source.num_features, 5, hidden_channels=32, K=9)
    methods = [mg.GraphPatcher()]
    mg.fit(model, source, epochs=500, lr=0.01, weight_decay=5e-4, methods=methods, seed=SEED)
    rows = {row.numpy().tobytes() for row in source.x}
    met = torch.tensor([row.numpy().tobytes() in rows for row in target.x])
    for method in (mg.ERM(), mg.GraphPatcher(1), mg.GraphPatcher(5)):
        probs = mg.predict(model, target, method).probs
        groups = (target.test_mask & met, target.test_mask & ~met)
        scores = [f"{100 * accuracy(probs, target.y, group):.1f}" for group in groups]
        print(method.name, method.settings().get("patches", ""), "met, not met:", *scores)


if __name__ == "__main__":
    run_study(main)
