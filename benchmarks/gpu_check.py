"""Check on a machine with a GPU that CPU and GPU give the same answer; prints one JSON object.

Run: python benchmarks/gpu_check.py
"""

import json
from time import perf_counter

import torch

import matcha_gnn as mg
from matcha_gnn.io.provenance import versions


def main() -> None:
    source = mg.datasets.csbm(5000, 200, homophily=0.8, seed=0)
    target = mg.datasets.csbm(5000, 200, homophily=0.2, seed=1000)
    model = mg.GPRGNN(200, 2)
    mg.fit(model, source, epochs=200)
    on_cpu = mg.adapt(model, target, strategy=mg.Matcha())
    # Assigning moved tensors, not Data.to, which would move the CPU copy's as well.
    model_gpu, target_gpu = model.to("cuda"), target.clone().to("cuda")
    on_gpu = mg.adapt(model_gpu, target_gpu, strategy=mg.Matcha())
    start = perf_counter()
    mg.adapt(model_gpu, target_gpu, strategy=mg.Matcha())
    seconds = perf_counter() - start
    apart = (on_gpu.probs.cpu() - on_cpu.probs).abs().max().item()
    record = {
        "device": torch.cuda.get_device_name(),
        "largest_difference_of_probabilities": apart,
        "labels_that_differ": int((on_gpu.labels.cpu() != on_cpu.labels).sum()),
        "accuracy_before": mg.metrics.accuracy(on_cpu.probs_before, target.y),
        "accuracy_after_cpu": mg.metrics.accuracy(on_cpu.probs, target.y),
        "accuracy_after_gpu": mg.metrics.accuracy(on_gpu.probs.cpu(), target.y),
        "seconds_on_gpu": seconds,
        "versions": versions(),
    }
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
