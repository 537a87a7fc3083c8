"""What a round of each base method costs beside one inference, as in the paper's time table.

A round is what the stages forward, loss, backward and update take, as `result.seconds` has them;
`prepare` is what a method takes once for a graph. For Tent, SOGA and GTrans a step or epoch of
their own is given too. All are shares of one inference of ours; the same network made of PyG's
message passing stands beside it. AdaNPC's memory is the peak of the process less what it held
before. LAME compares all pairs of nodes and is timed at the smallest size alone.

Run: python benchmarks/time_table.py [--nodes 5000 100000] [--out results/bench-time.json]
"""

import argparse
import json
import multiprocessing
import platform
from pathlib import Path

import torch
from common import peak_memory
from inference import PlainGPRGNN

import matcha_gnn as mg
from matcha_paper.figures.time import METHODS, OWN_STEPS, Clock, source_model
from matcha_paper.timing import best_seconds

PUBLISHED = {"ERM": 0.1189, "T3A": 0.2346, "SOGA step": 2.4741, "GTrans step": 4.8563}


def measure(model: mg.Backbone, nodes: int, rounds: int, repeats: int) -> dict[str, object]:
    graph = mg.datasets.csbm(nodes, model.in_channels, homophily=0.2, seed=1)
    inference = best_seconds(lambda: model(graph.x, graph.edge_index), repeats + 2)
    plain = PlainGPRGNN(model)
    with torch.no_grad():
        by_pyg = best_seconds(lambda: plain(graph.x, *plain.normalised(graph)), repeats + 2)
    print(nodes, f"inference {1e3 * inference:.1f} ms, by PyG {1e3 * by_pyg:.1f} ms", flush=True)
    clock = Clock(model, graph, repeats)
    rows: dict[str, dict[str, float]] = {}
    for name, make in (METHODS | {"LAME": mg.LAME}).items():
        if name == "LAME" and nodes > 10_000:
            continue
        seconds = clock.stages(make(), rounds)
        setup = seconds.pop("setup")
        in_a_round = sum(seconds.values()) / (rounds + 1)
        rows[name] = {"round": in_a_round / inference, "prepare": setup / inference}
        if name in OWN_STEPS:
            rows[name]["own step"] = clock.own_step(*OWN_STEPS[name]) / inference
        print(nodes, name, {key: f"{v:.1%}" for key, v in rows[name].items()}, flush=True)
    times = {"inference_ms": 1e3 * inference, "pyg_inference_ms": 1e3 * by_pyg}
    return {"nodes": nodes, **times, "share_of_inference": rows}


def adanpc_memory(nodes: int, features: int, answer) -> None:
    """What one round of AdaNPC takes at its peak, in bytes."""
    model = source_model(features)
    graph = mg.datasets.csbm(nodes, features, homophily=0.2, seed=1)
    hops = model.hops(mg.unlabelled(graph))
    one_round = mg.Matcha(rounds=1)
    mg.gamma.run(model, graph, strategy=one_round, hops=hops)
    method = mg.AdaNPC(k=10, temperature=0.001)
    answer.send(
        peak_memory(lambda: mg.gamma.run(model, graph, method, one_round, hops=hops), "cpu")
    )


def in_a_fresh_process(nodes: int, features: int) -> int:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=adanpc_memory, args=(nodes, features, theirs))
    process.start()
    taken: int = ours.recv()
    process.join()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[5000, 100_000])
    parser.add_argument("--features", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    model = source_model(args.features)
    sizes = []
    for nodes in args.nodes:
        small = nodes <= 10_000
        sizes.append(measure(model, nodes, 20 if small else 4, 20 if small else 4))
    grown = in_a_fresh_process(max(args.nodes), 64)
    record = {
        "command": "python benchmarks/time_table.py",
        "sizes": sizes,
        "published_share_of_inference": PUBLISHED,
        "adanpc_peak_memory": {"nodes": max(args.nodes), "bytes": grown},
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
    }
    print("AdaNPC's peak memory beyond graph and hops:", f"{grown / 1e9:.2f} GB")
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
