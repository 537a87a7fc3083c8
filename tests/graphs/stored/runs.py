"""One adaptation of a store in a process of its own; prints its peak memory, writes its answer.

python runs.py MODEL STORE ANSWER MEMORY METHOD
"""

import json
import sys

import numpy as np
import torch

import matcha_gnn as mg
from matcha_gnn.graphs.stored.plan import peak_resident

METHODS = {"default": mg.ERM, "erm": mg.ERM, "t3a": mg.T3A, "tent": mg.Tent}


def main() -> None:
    model, folder, answer, memory, method = sys.argv[1:]
    torch.set_num_threads(1)
    store = mg.GraphStore(folder, memory, tell=lambda line: print(line, flush=True))
    given = {"method": METHODS[method](), "strategy": mg.Matcha(rounds=6)}
    result = mg.adapt(mg.load_model(model), store, **{} if method == "default" else given)
    np.savez(answer, probs=result.probs.numpy(), gamma=result.gamma.numpy())
    print(json.dumps({"peak": peak_resident(), "seconds": result.seconds}))


if __name__ == "__main__":
    main()
