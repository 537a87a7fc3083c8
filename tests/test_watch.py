"""`mg.Watch` and `matcha watch`: what rings and when, the table, the page, and the files."""

import csv
import math
import os
import re
from functools import cache

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN

import matcha_gnn as mg
from matcha_gnn.cli import watch_command
from running import run


def day(homophily=0.85, seed=1, nodes=500, shares=(0.5, 0.5), signal=1.2):
    options = {"degree": 6, "signal": signal, "shares": shares, "seed": seed}
    return mg.datasets.csbm(nodes, 24, homophily=homophily, **options)


def broken(seed=1):
    graph = day(seed=seed)
    graph.x = 100 * graph.x
    return graph


@cache
def trained(signal=1.2, homophily=0.85):
    model = mg.GPRGNN(24, 2, hidden_channels=8, K=4)
    mg.fit(model, day(homophily, 0, 800, signal=signal), epochs=80)
    return model


def rings(watch, *graphs):
    """The alarms on each graph, of one day after the other."""
    days = enumerate(graphs, 1)
    return [list(watch.observe(graph, f"2026-05-{day:02d}").alarms) for day, graph in days]


def test_a_level_rings_where_it_begins_and_where_it_is_clearly_worse():
    watch = mg.Watch(trained(), level=0.9)
    low, again, worse, good = day(0.5, 2), day(0.5, 3), day(0.4, 4, signal=0.3), day(seed=6)
    graphs = day(), low, again, worse, worse, good, low
    assert rings(watch, *graphs) == [[], ["level"], [], ["level"], [], [], ["level"]]
    begins = ["", *["2026-05-02T00:00:00+00:00"] * 4, "", "2026-05-07T00:00:00+00:00"]
    assert [step.level_since for step in watch.steps] == begins
    estimates = [step.estimate for step in watch.steps]
    assert [value < 0.9 for value in estimates] == [bool(begin) for begin in begins]
    assert estimates[3] < estimates[1] - 0.05 * 0.9 < estimates[2]
    assert rings(mg.Watch(trained()), low) == [[]]


def test_class_shares_ring_where_they_moved_beyond_chance():
    moved, further, alarm = day(shares=(0.75, 0.25)), day(shares=(0.9, 0.1)), ["class_shares"]
    graphs = day(), moved, moved, further, day(seed=2), further
    assert rings(mg.Watch(trained()), *graphs) == [[], alarm, [], alarm, [], alarm]
    few, many = (day(nodes=nodes, shares=(2 / 3, 1 / 3)) for nodes in (30, 900))
    assert rings(mg.Watch(trained()), few, many) == [[], alarm]


def test_distance_rings_where_nothing_can_be_told_and_where_features_are_broken():
    watch, alarm = mg.Watch(trained(0.05, 0.5), level=0.9), ["distance"]
    weak = [day(0.5, seed, signal=0.05) for seed in (1, 2, 3)]
    assert rings(watch, *weak, broken(), broken(2)) == [alarm, [], [], alarm, []]
    first, *_, last = watch.steps
    assert "cannot tell: features, edges and network together explain" in first.distance
    assert first.distance_since == last.distance_since == first.time
    assert [step.broken for step in watch.steps] == [False] * 3 + [True] * 2
    assert all(math.isnan(step.estimate) for step in watch.steps)
    assert rings(mg.Watch(trained()), broken(), day(), broken()) == [alarm, [], alarm]


def test_a_step_is_what_adapt_returns_and_nothing_is_changed():
    model, graph = trained(), day(0.3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    watch = mg.Watch(model)
    watch.observe(broken())
    step, result = watch.observe(graph, "2026-05-01T12:30+02:00", "a"), mg.adapt(model, graph)
    taken = result.taken
    assert step.result.probs.equal(result.probs)
    assert (step.estimate, step.low, step.high) == taken.accuracy == taken.goal
    assert (step.accuracy, step.taken) == (taken.accuracy.value, result.chosen)
    assert (step.changed, step.nodes) == (result.changed, 500)
    assert step.time == "2026-05-01T12:30:00+02:00"
    assert [each.result for each in watch.steps] == [None, None]
    assert all(model.state_dict()[name].equal(tensor) for name, tensor in before.items())
    graph.y = 1 - graph.y
    assert mg.Watch(model).observe(graph).estimate == step.estimate


def test_metric_positive_classes_and_loader_reach_adapt():
    torch.manual_seed(0)
    net, graph, batches = GCN(24, 8, 2, 2).eval(), day(0.5), []

    def loader(data):
        batches.append(data)
        data.batch_size, data.n_id = data.num_nodes, torch.arange(data.num_nodes)
        return [data]

    options = {"metric": "f1", "positive": "fraud", "classes": ("licit", "fraud")}
    source = mg.summarise_source(net, day(seed=0))
    step = mg.Watch(net, source=source, level=0.99, loader=loader, **options).observe(graph)
    taken = mg.adapt(net, graph, source=source, **options).taken
    assert (step.estimate, step.low, step.high) == taken.goal != taken.accuracy
    assert (step.metric, step.accuracy) == ("f1", taken.accuracy.value)
    assert "F1 of fraud" in step.alarms["level"]
    assert batches


@pytest.fixture
def watched():
    watch = mg.Watch(trained(), level=0.9)
    watch.observe(day(), "2026-05-01", "a,\n'<b>\"é", "1")
    watch.observe(day(0.5, 2), "2026-05-02", "b")
    watch.skip("no graph: <script>", "2026-05-03", "c")
    watch.observe(broken(), "2026-05-04", "d")
    return watch


def test_a_table_is_all_that_it_takes_to_go_on(watched, tmp_path):
    path, other = tmp_path / "t.csv", mg.Watch(trained(), level=0.9)
    watched.to_csv(path)
    other.resume(path)
    for watch in (watched, other):
        watch.observe(day(0.5, 3), "2026-05-05")
        assert not watch.steps[-1].alarms
    assert repr(other.table()) == repr(watched.table())
    whole = path.read_text(encoding="utf-8")
    cuts = [whole[: int(share * len(whole))] for share in (0.3, 0.6, 0.9)]
    for text in (*cuts, "a,b\n1,2\n", whole.replace("False", "no"), whole.replace("2026", "x")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(mg.InvalidFileError, match="^table: got"):
            other.resume(path)


def test_the_page_has_one_picture_and_the_table_beneath(watched, tmp_path):
    watched.to_html(tmp_path / "w.html")
    page = (tmp_path / "w.html").read_text(encoding="utf-8")
    assert page.count('<svg role="img" aria-label="') == 1
    assert page.index("</svg>") < page.index("<table")
    assert "<script" not in page
    rows = re.findall(r"<tr>.*?</tr>", page[page.index("<tbody>") :], re.DOTALL)
    assert [re.search(r'row">(.)', row)[1] for row in rows] == list("dcba")
    says = "<strong>distance</strong>", "could not be used", "<strong>level</strong>", "to 100.0 %"
    assert all(text in row for text, row in zip(says, rows, strict=True))
    assert "level since 2026-05-02" in rows[0]
    mg.Watch(trained()).to_html(tmp_path / "none.html")
    assert "No graph so far" in (tmp_path / "none.html").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Two days, the later one first by name; files count as whole at once."""
    monkeypatch.setattr(watch_command, "SETTLED", 0.0)
    monkeypatch.chdir(tmp_path)
    mg.save_model(trained(), "m.safetensors")
    os.mkdir("days")
    for name, homophily in {"2026-05-02.npz": 0.5, "a_2026-05-01T1230.pt": 0.85}.items():
        mg.write_graph(day(homophily), f"days/{name}")
    return tmp_path


def follow(capsys, *more):
    """What the command says, and the rows of its table."""
    code, said, progress = run(capsys, "watch", "m.safetensors", "days", "-o", "out", *more)
    assert code == 0, progress
    with open("out/watch.csv", newline="", encoding="utf-8") as file:
        return said + progress, list(csv.DictReader(file))


def test_every_file_is_read_once_in_the_order_of_dates(place, capsys):
    said, rows = follow(capsys, "--once", "--level", "0.9")
    assert [row["name"] for row in rows] == ["a_2026-05-01T1230.pt", "2026-05-02.npz"]
    assert rows[0]["time"] == "2026-05-01T12:30:00+00:00"
    assert said.count("ALARM (level): Below the level of 0.9") == 1
    result = mg.adapt(trained(), mg.read_graph("days/2026-05-02.npz"))
    labels = np.loadtxt("out/predictions/2026-05-02.npz.csv", delimiter=",", skiprows=1)
    assert labels[:, 1].tolist() == result.labels.tolist()
    np.testing.assert_allclose(labels[:, 2], result.probs.amax(1), atol=1e-6)
    assert "</svg>" in (place / "out" / "watch.html").read_text()
    assert "…" not in follow(capsys, "--once")[0].partition("PyTorch …")[2]
    mg.write_graph(day(0.3), "days/2026-05-02.npz")
    os.utime("days/a_2026-05-01T1230.pt")
    assert [row["name"] for row in follow(capsys, "--once")[1]][2:] == ["2026-05-02.npz"]


def test_what_cannot_be_read_is_a_row_and_what_is_still_written_is_left(place, capsys, monkeypatch):
    (place / "days" / "2026-05-01.npz").write_bytes(b"no graph")
    mg.write_graph(mg.datasets.csbm(30, 3, seed=0), "days/2026-05-03.npz")
    (place / "days" / ".hidden.npz").write_bytes(b"")
    half = place / "days" / "half.npz"
    half.write_bytes(b"1")
    monkeypatch.setattr(watch_command, "SETTLED", 60.0)
    monkeypatch.setattr(watch_command, "sleep", lambda _: half.write_bytes(b"12"))
    said, rows = follow(capsys, "--once")
    skipped = {row["name"]: row["summary"] for row in rows if not row["taken"]}
    assert "not a plain array file" in skipped.pop("2026-05-01.npz")
    assert "allowed: 24" in skipped.pop("2026-05-03.npz")
    assert (skipped, len(rows)) == ({}, 4)
    assert "'half.npz' is still being written: left for later" in said


def test_it_waits_for_new_files_until_it_is_interrupted(place, capsys, monkeypatch):
    def sleep(seconds):
        if os.path.exists("days/late.npz"):
            raise KeyboardInterrupt
        mg.write_graph(day(seed=5), "days/late.npz")

    monkeypatch.setattr(watch_command, "sleep", sleep)
    said, rows = follow(capsys, "--metric", "f1", "--positive", "1")
    assert [(row["name"], row["metric"]) for row in rows][2:] == [("late.npz", "f1")]
    assert "the same command goes on from here" in said
    assert run(capsys, "watch", "m.safetensors", "days", "-o", "x", "--metric", "f2")[0] == 2
