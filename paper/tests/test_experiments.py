import json
import shutil
from pathlib import Path
from statistics import mean, stdev

import pytest

import matcha_gnn as mg
from matcha_paper.attack import attacked
from matcha_paper.datasets import rawfiles
from matcha_paper.experiments import compare, load, names, run, run_all, store
from matcha_paper.experiments.spec import (
    cells,
    counted_over_all_nodes,
    parse,
    published,
)
from matcha_paper.tables import gain_table

SMALL = {
    "title": "small",
    "seeds": [0, 1],
    "data": {"generator": "csbm", "num_nodes": 80, "num_features": 6, "signal": 3.0},
    "train": {
        "backbone": "gprgnn",
        "hidden_channels": 4,
        "K": 2,
        "epochs": 40,
        "lr": 0.01,
        "weight_decay": 0.0,
    },
    "columns": {
        "a": {"source": {"homophily": 0.8}, "target": {"homophily": 0.2}},
        "b": {"source": {"homophily": 0.8}, "target": {"homophily": 0.5}},
    },
    "rows": {
        "ERM": {"method": "erm", "epochs": 0},
        "ERM + Matcha": {"method": "erm", "epochs": 3, "only": {"b": {"lr": 0.5}}},
    },
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    assert run(parse("small", SMALL), folder, jobs=1) == 8
    return folder


def trained_by_hand():
    """The source model and the target of column a for seed 0, without the runner."""
    source = mg.datasets.csbm(80, 6, homophily=0.8, signal=3.0, seed=0)
    target = mg.datasets.csbm(80, 6, homophily=0.2, signal=3.0, seed=1000)
    model = mg.GPRGNN(6, 2, hidden_channels=4, K=2)
    mg.fit(model, source, epochs=40, weight_decay=0.0, holdout=0, seed=0)
    return model, target


def test_one_record_per_cell_with_all_that_decided_it(finished):
    assert len((finished / "small.jsonl").read_text().splitlines()) == 8
    record = store.read("small", finished)["b", "ERM + Matcha", 1]
    assert record["cell"]["run"]["lr"] == 0.5
    assert record["cell"]["source"]["seed"] == 1
    assert record["cell"]["target"]["seed"] == 1001
    made_with = {"model", "versions", "code", "hardware"}
    assert {"cell", "algorithm", "numbers", "seconds"} | made_with == set(record)
    assert {"torch", "numpy", "python"} <= set(record["versions"])
    parameters = {"loss": "pic", "optimizer": "sgd", "lr": 0.5, "epochs": 3, "features": "source"}
    assert record["algorithm"] == {"name": "matcha", "version": 2, "parameters": parameters}


def test_a_record_holds_what_the_library_gives(finished):
    model, target = trained_by_hand()
    result = mg.gamma.run(model, target, strategy=mg.Matcha(rounds=3))
    record = store.read("small", finished)["a", "ERM + Matcha", 0]
    assert record["numbers"]["accuracy"] == mg.metrics.accuracy(result.probs, target.y)


def test_a_record_without_a_setting_that_came_later_is_of_its_default(finished, tmp_path):
    experiment = parse("small", SMALL)
    folder = shutil.copytree(finished, tmp_path / "results")
    for record in store.read("small", finished).values():
        del record["cell"]["before"], record["cell"]["attack"], record["cell"]["run"]["stream"]
        store.append(record, folder)
    assert "attack" not in store.read("small", folder)["a", "ERM", 0]["cell"]
    assert store.missing(cells(experiment), folder) == []
    streamed = json.loads(json.dumps(SMALL))
    streamed["rows"]["ERM + Matcha"]["stream"] = True
    todo = store.missing(cells(parse("small", streamed)), folder)
    assert {cell.row for cell in todo} == {"ERM + Matcha"}


def test_the_default_is_run_and_its_rows_around_base_methods_are_refused(tmp_path):
    table = json.loads(json.dumps(SMALL))
    table["seeds"] = [0]
    ours, belief = ({"method": "erm", "loss": loss} for loss in ("ours", "belief"))
    table["rows"] = {"ours": ours, "belief": belief, "T3A + ours": ours | {"method": "t3a"}}
    run(parse("small", table), tmp_path, jobs=1)
    found = store.read("small", tmp_path)
    records = {row: found["a", row, 0] for row in table["rows"]}
    assert {row: record["algorithm"]["name"] for row, record in records.items()} == {
        "ours": "guarded",
        "belief": "belief",
        "T3A + ours": "guarded",
    }
    model, target = trained_by_hand()
    assert records["ours"]["numbers"]["status"] == mg.adapt(model, target).status
    assert records["belief"]["numbers"]["accuracy"] is not None
    refused = records["T3A + ours"]["numbers"]
    assert refused["accuracy"] is None
    assert refused["incompatible"].startswith("the default takes no base method, such as t3a")


def test_a_stream_carries_on_from_the_graph_before(finished, tmp_path):
    streamed = json.loads(json.dumps(SMALL))
    streamed["seeds"] = [0]
    streamed["rows"] = {"Evolving": {"method": "erm", "epochs": 3, "lr": 0.5, "stream": True}}
    run(parse("small", streamed), tmp_path, jobs=1)
    model, first = trained_by_hand()
    second = mg.datasets.csbm(80, 6, homophily=0.5, signal=3.0, seed=1000)
    for column, target in (("a", first), ("b", second)):
        result = mg.gamma.run(model, target, strategy=mg.Matcha(lr=0.5, rounds=3))
        model = result.model
        record = store.read("small", tmp_path)[column, "Evolving", 0]
        assert record["numbers"]["gamma"] == result.gamma.tolist()


def test_an_attacked_column_has_the_edges_that_hurt_its_source_model(tmp_path):
    attack = {"rate": 0.2, "epochs": 5, "block_size": 1000}
    hurt = json.loads(json.dumps(SMALL))
    hurt["seeds"] = [0]
    hurt["rows"] = {"Homophily": {"method": "erm", "epochs": 0, "score": "homophily"}}
    hurt["columns"]["b"] = hurt["columns"]["a"] | {"attack": attack}
    experiment = parse("small", hurt)
    run(experiment, tmp_path, jobs=1)
    model, target = trained_by_hand()
    expected = [target, attacked(model, target, **attack, nodes=target.y >= 0)]
    alike = [100 * mg.metrics.edge_homophily(graph.edge_index, graph.y) for graph in expected]
    assert alike[0] != alike[1]
    assert [c.ours_mean for c in compare(experiment, tmp_path)] == pytest.approx(alike, abs=1e-3)


def test_without_data_it_says_which_files_go_where_and_runs_the_rest(tmp_path, monkeypatch):
    monkeypatch.setenv("MATCHA_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(rawfiles, "_TIMEOUT", 0.001)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    mixed = json.loads(json.dumps(SMALL))
    mixed["seeds"], mixed["data"] = [0], {}
    for graphs in mixed["columns"].values():
        for options in graphs.values():
            options |= SMALL["data"]
    for generator in ("syn_cora", "syn_coauthor_cs"):
        graph = {"generator": generator, "part": "source"}
        mixed["columns"][generator] = {"source": graph, "target": graph}
    with pytest.raises(mg.InvalidFileError) as raised:
        run(parse("small", mixed), tmp_path, jobs=1)
    assert "nowhere/syn-cora/h0.80-r1.npz" in str(raised.value)
    assert "nowhere/coauthor-cs/coauthor_cs.npz" in str(raised.value)
    assert len(store.read("small", tmp_path)) == 4


def test_compare_takes_mean_and_deviation_over_seeds(finished):
    rows = compare(parse("small", SMALL), finished)
    assert [(c.row, c.column) for c in rows] == [
        ("ERM", "a"),
        ("ERM", "b"),
        ("ERM + Matcha", "a"),
        ("ERM + Matcha", "b"),
    ]
    records = store.read("small", finished)
    values = [100 * records["a", "ERM", seed]["numbers"]["accuracy"] for seed in (0, 1)]
    assert rows[0].ours_mean == pytest.approx(mean(values), abs=1e-3)
    assert rows[0].ours_sd == pytest.approx(stdev(values), abs=1e-3)
    assert rows[0].seeds == (0, 1)
    assert rows[0].paper_mean is None


@pytest.mark.parametrize("where", ["", "train", "rows.ERM"])
def test_an_unknown_key_is_an_error(where):
    changed = json.loads(json.dumps(SMALL))
    place = changed
    for part in where.split(".") if where else []:
        place = place[part]
    place["lerning_rate"] = 1
    with pytest.raises(mg.InvalidArgumentError, match="lerning_rate"):
        parse("small", changed)


@pytest.mark.parametrize("name", names())
def test_every_published_number_has_its_place(name):
    experiment, table = load(name), published(name)
    assert set(table) <= set(experiment.rows)
    assert all(column in table[row] for row, column in counted_over_all_nodes(name))
    assert all(set(row) <= set(experiment.columns) for row in table.values())
    every = [pair for row in table.values() for pair in row.values()]
    assert every or name == "cover"
    assert all(16 < mean < 100 and all(0 < sd < 7 for sd in rest) for mean, *rest in every)


def test_a_row_has_the_method_of_its_base_in_every_column():
    based = json.loads(json.dumps(SMALL))
    options = {"b": {"method_options": {"k": 5}}}
    based["rows"] = {
        "T3A": {"method": "t3a", "method_options": {"k": 9}, "epochs": 0, "only": options},
        "T3A + Matcha": {"base": "T3A", "epochs": 3, "only": {"b": {"lr": 0.5}}},
    }
    row = parse("small", based).rows["T3A + Matcha"]
    assert (row.method, row.epochs) == ("t3a", 3)
    assert row.at("a").method_options == {"k": 9}
    assert (row.at("b").method_options, row.at("b").lr) == ({"k": 5}, 0.5)
    based["rows"]["T3A + Matcha"]["method"] = "erm"
    with pytest.raises(mg.InvalidArgumentError, match="that of its base"):
        parse("small", based)
    based["rows"]["T3A + Matcha"] = {"base": "Tent"}
    with pytest.raises(mg.InvalidArgumentError, match="base: got 'Tent'"):
        parse("small", based)


@pytest.mark.parametrize("name", names())
def test_rows_that_adapt_name_their_base(name):
    rows = load(name).rows
    assert all(bool(row.base) == (row.epochs > 0) for row in rows.values())
    assert all(rows[row.base].epochs == 0 for row in rows.values() if row.base)


def test_rows_are_paired_by_seed_where_they_share_the_source_model(finished, tmp_path):
    raw = json.loads(json.dumps(SMALL))
    raw["rows"]["ERM + Matcha"] |= {"base": "ERM"}
    del raw["rows"]["ERM + Matcha"]["method"]
    experiment = parse("small", raw)
    run(experiment, tmp_path, jobs=1)
    alone, _, adapted, _ = compare(experiment, tmp_path)
    records = store.read("small", tmp_path)
    differences = [
        100 * (records["a", "ERM + Matcha", s]["numbers"]["accuracy"])
        - 100 * records["a", "ERM", s]["numbers"]["accuracy"]
        for s in (0, 1)
    ]
    assert alone.gain is None
    assert adapted.gain.base == "ERM"
    assert adapted.gain.mean == pytest.approx(mean(differences), abs=1e-3)
    assert adapted.gain.sd == pytest.approx(stdev(differences), abs=1e-3)
    assert "ERM + Matcha" in gain_table(experiment, [alone, adapted])
    other = records["a", "ERM", 1]
    other["model"]["hash"] = "0" * 16
    store.append(other, tmp_path)
    assert compare(experiment, tmp_path)[2].gain.sd is None, "one seed is left"


def test_every_cell_is_recorded():
    folder = Path(__file__).parents[2] / "results"
    for name in names():
        wanted = {(cell.column, cell.row, cell.seed) for cell in cells(load(name))}
        assert store.read(name, folder).keys() == wanted


def test_tables_run_by_the_same_processes_as_one_by_one(finished, tmp_path):
    """Cells of a source model are spread over processes; each model is trained once."""
    tables = [parse(name, SMALL) for name in ("small", "other")]
    assert run_all(tables, tmp_path, jobs=2) == 16
    expected = store.read("small", finished)
    for name in ("small", "other"):
        records = store.read(name, tmp_path)
        assert records.keys() == expected.keys()
        for place, record in records.items():
            assert record["numbers"] == expected[place]["numbers"]
            assert record["model"]["hash"] == expected[place]["model"]["hash"]
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 2
