"""`matcha watch`: what is there, what comes, what is broken, and a run that is killed."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import matcha_gnn as mg
from matcha_gnn.cli import watching
from matcha_gnn.cli.watching import Arrival, Inbox
from running import run

SIZE = {"num_nodes": 200, "num_features": 24, "degree": 6, "signal": 1.2}
DAYS = {"2026-05-01": 0.85, "2026-05-02": 0.6, "2026-05-03": 0.1, "2026-05-04": 0.85}
FILES = {
    *("state.safetensors", "timeline.csv", "timeline.html", "events.jsonl"),
    *("graphs", ".lock"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, its source, and a folder of four days, the third without labels."""
    folder = tmp_path_factory.mktemp("made")
    source = mg.datasets.csbm(**SIZE | {"num_nodes": 600}, homophily=0.85, seed=0)
    model = mg.GPRGNN(24, 2, hidden_channels=8, K=4)
    mg.fit(model, source, epochs=80)
    mg.save_model(model, folder / "m.safetensors")
    mg.write_graph(source, folder / "source.npz")
    (folder / "days").mkdir()
    for seed, (day, homophily) in enumerate(DAYS.items()):
        graph = mg.datasets.csbm(**SIZE, homophily=homophily, seed=1 + seed)
        if seed == 2:
            del graph.y
        mg.write_graph(graph, folder / "days" / f"{day}.npz")
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of the folder; files count as whole at once, and no pages are drawn."""
    shutil.copytree(made, tmp_path / "w")
    monkeypatch.setattr(watching, "OLD", -1e9)
    monkeypatch.setattr(watching, "can_report", lambda tell: False)
    return tmp_path / "w"


def watch(place, *more):
    return ("watch", place / "m.safetensors", place / "days", "-o", place / "out", "--once", *more)


def events(place):
    return [json.loads(line) for line in (place / "out" / "events.jsonl").read_text().splitlines()]


def rows(place):
    with open(place / "out" / "timeline.csv", newline="") as file:
        return list(csv.DictReader(file))


def figures(event):
    """What a graph and its file decide; the folder may lie elsewhere."""
    return {name: value for name, value in event.items() if name not in ("seconds", "version")}


def test_every_file_is_written(place, capsys, monkeypatch):
    monkeypatch.undo()
    for path in (place / "days").iterdir():
        os.utime(path, (1e9, 1e9))
    code, said, _ = run(capsys, *watch(place, "--level", "0.9", "--source", place / "source.npz"))
    assert code == 0
    assert {path.name for path in (place / "out").iterdir()} == FILES
    found = events(place)
    assert [event["name"] for event in found] == [f"{day}.npz" for day in DAYS]
    assert [event["time"][:10] for event in found] == list(DAYS)
    assert [event["measured"] is None for event in found] == [False, False, True, False]
    for event, row in zip(found, rows(place), strict=True):
        assert (place / "out" / event["report"]).is_file()
        assert float(row["accuracy"]) == pytest.approx(event["accuracy"], rel=1e-5)
        assert row["alarms"] == "; ".join(alarm["kind"] for alarm in event["alarms"])
        summary = json.loads(
            (place / "out" / event["report"]).with_name("summary.json").read_text()
        )
        assert summary["accuracy_after"] == event["measured"]
    assert all(alarm["graphs"] == 20 for event in found for alarm in event["alarms"])
    assert "4 graphs so far" in said
    assert "timeline.html" in said


def test_the_command_finds_what_the_library_finds(place, capsys):
    run(capsys, *watch(place))
    watched = mg.Watch(mg.load_model(place / "m.safetensors"))
    for day, event in zip(DAYS, events(place), strict=True):
        step = watched.observe(mg.read_graph(place / "days" / f"{day}.npz"), day)
        assert event["accuracy"] == step.accuracy
        assert (event["chosen"], event["fingerprint"]) == (step.chosen, step.fingerprint)


def test_a_second_run_reads_what_is_new(place, capsys):
    run(capsys, *watch(place))
    before = (place / "out" / "events.jsonl").read_text()
    run(capsys, *watch(place))
    assert (place / "out" / "events.jsonl").read_text() == before
    graph = mg.datasets.csbm(**SIZE, homophily=0.5, seed=9)
    mg.write_graph(graph, place / "days" / "2026-05-09.npz")
    code, said, _ = run(capsys, *watch(place, "--json"))
    assert code == 0
    (line,) = said.splitlines()
    assert (json.loads(line)["number"], json.loads(line)["name"]) == (5, "2026-05-09.npz")
    assert len(rows(place)) == 5


def test_a_file_that_is_replaced_is_read_again_and_the_same_content_is_known(place, capsys):
    run(capsys, *watch(place))
    path = place / "days" / "2026-05-04.npz"
    os.utime(path, (1e9, 1e9))
    run(capsys, *watch(place))
    *_, fourth, fifth = events(place)
    assert (fifth["repeats"], fifth["number"]) == (4, 5)
    assert fifth["accuracy"] == fourth["accuracy"]
    assert fifth["report"] == fourth["report"] == ""
    assert len(list((place / "out" / "graphs").iterdir())) == 5


def test_bad_files_are_noted_and_do_not_stop_the_watch(place, capsys):
    (place / "days" / "2026-05-02b.npz").write_bytes(b"not a graph")
    mg.write_graph(mg.datasets.csbm(30, 3, seed=0), place / "days" / "2026-05-03b.npz")
    (place / "days" / "notes.txt").write_text("no graph")
    (place / "days" / ".hidden.npz").write_bytes(b"")
    (place / "days" / "folder.npz").mkdir()
    code, said, _ = run(capsys, *watch(place))
    problems = {event["name"]: event["problem"] for event in events(place)}
    assert code == 0
    assert "not a plain array file" in problems["2026-05-02b.npz"]
    assert "24" in problems["2026-05-03b.npz"]
    assert [name for name, problem in problems.items() if not problem] == [f"{d}.npz" for d in DAYS]
    assert said.count("could not be used") == 2
    path = place / "days" / "2026-05-02b.npz"
    mg.write_graph(mg.datasets.csbm(**SIZE, homophily=0.5, seed=9), path)
    run(capsys, *watch(place))
    assert events(place)[-1]["name"] == path.name
    assert not events(place)[-1]["problem"]


def test_a_file_that_is_still_written_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "SETTLED", 0.3)
    path, inbox = tmp_path / "a.npz", Inbox(tmp_path, {})
    path.write_bytes(b"1")
    assert inbox.look() == ([], True)
    for _ in range(4):
        time.sleep(0.1)
        with open(path, "ab") as file:
            file.write(b"1")
        assert inbox.look() == ([], True)
    time.sleep(0.35)
    (arrival,), waiting = inbox.look()
    assert (arrival.name, waiting) == ("a.npz", False)
    inbox.read[arrival.name] = arrival.version
    assert inbox.look() == ([], False)


def test_old_files_are_whole_at_once(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"1")
    os.utime(path, (1e9, 1e9))
    assert len(Inbox(tmp_path, {}).look()[0]) == 1


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("2026-05-01.npz", "2026-05-01T00:00:00+00:00"),
        ("shop_2026-05-01T1230_v2.pt", "2026-05-01T12:30:00+00:00"),
        ("2026-13-45.npz", "2001-09-09T01:46:40+00:00"),
        ("latest.npz", "2001-09-09T01:46:40+00:00"),
    ],
)
def test_the_time_is_in_the_name_or_that_of_the_last_change(tmp_path, name, time):
    (tmp_path / name).write_bytes(b"1")
    os.utime(tmp_path / name, (1e9, 1e9))
    assert Arrival.of(tmp_path / name).time == time
    assert Arrival.of(tmp_path / "gone.npz") is None


def test_a_file_that_vanishes_or_changes_while_it_is_read_is_not_noted(place, capsys, monkeypatch):
    read, broken = watching.read_graph, []

    def changing(path, **options):
        if path.name == "2026-05-02.npz" and not broken:
            broken.append(path)
            os.utime(path)
            raise mg.InvalidFileError("graph", path, "whole files")
        if path.name == "2026-05-03.npz":
            path.unlink(missing_ok=True)
        return read(path, **options)

    monkeypatch.setattr(watching, "read_graph", changing)
    run(capsys, *watch(place))
    assert sorted(event["name"][:10] for event in events(place)) == [
        *("2026-05-01", "2026-05-02", "2026-05-04")
    ]
    assert not any(event["problem"] for event in events(place))


def test_an_alarm_on_the_newest_graph_fails_the_job_where_that_is_asked_for(place, capsys):
    assert run(capsys, *watch(place, "--level", "0.999"))[0] == 0
    code, _, _ = run(capsys, *watch(place, "--level", "0.999", "--fail-on-alarm"))
    assert code == 3
    shutil.rmtree(place / "out")
    code, said, _ = run(capsys, *watch(place, "--level", "0.01", "--fail-on-alarm"))
    newest = events(place)[-1]
    assert code == (3 if newest["alarms"] else 0)
    assert "ALARM (level)" not in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--level", "2"), "level: got 2.0"),
        (("--every", "0"), "--every: got 0.0"),
        (("--source", "nothing.npz"), "no such file"),
        (("--strategy", "nothing"), "--strategy"),
    ],
)
def test_bad_options_are_one_line(place, capsys, more, said):
    code, _, err = run(capsys, *watch(place, *more))
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_bad_folders_are_one_line(place, capsys):
    code, _, err = run(
        capsys, "watch", place / "m.safetensors", place / "no", "-o", place / "out", "--once"
    )
    assert (code, err.count("\n")) == (2, 1)
    command = [part for part in watch(place, "--fail-on-alarm") if part != "--once"]
    code, _, err = run(capsys, *command)
    assert code == 2
    assert "without --once there is no end" in err


def test_files_of_another_watch_are_not_mixed(place, capsys):
    run(capsys, *watch(place))
    lines = (place / "out" / "events.jsonl").read_text().splitlines(keepends=True)
    (place / "out" / "events.jsonl").write_text("".join(lines[:2]))
    code, _, err = run(capsys, *watch(place))
    assert code == 2
    assert "2 rows in events.jsonl, 4 steps in state.safetensors" in err


def test_two_at_once_do_not_write_to_one_folder(place, capsys):
    with watching._alone(watching.output_folder(place / "out")):
        code, _, err = run(capsys, *watch(place))
    assert code == 2
    assert "another matcha watch writes there" in err


def test_interrupted_it_stops_and_says_so(place, capsys, monkeypatch):
    def sleep(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.clock, "sleep", sleep)
    command = [part for part in watch(place) if part != "--once"]
    code, _, err = run(capsys, *command)
    assert code == 0
    assert "goes on from here" in err
    assert len(events(place)) == 4


def test_it_waits_for_new_files(place, capsys, monkeypatch):
    graph = mg.datasets.csbm(**SIZE, homophily=0.5, seed=9)
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 1:
            mg.write_graph(graph, place / "days" / "2026-05-09.npz")
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.clock, "sleep", sleep)
    run(capsys, *[part for part in watch(place, "--every", "7") if part != "--once"])
    assert looks == [7.0, 7.0, 7.0]
    assert events(place)[-1]["name"] == "2026-05-09.npz"


def start(place):
    words = [sys.executable, "-m", "matcha_gnn", *map(str, watch(place))]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_killed_and_started_again_it_goes_on_where_it_was(made, tmp_path):
    for name in ("whole", "killed"):
        shutil.copytree(made, tmp_path / name)
        for path in (tmp_path / name / "days").iterdir():
            os.utime(path, (1e9, 1e9))
    assert start(tmp_path / "whole").wait() == 0
    place, deaths = tmp_path / "killed", 0
    for number in (1, 2):
        process = start(place)
        ended = threading.Event()
        while process.poll() is None and not ended.wait(0.01):
            path = place / "out" / "events.jsonl"
            if path.exists() and path.read_text().count("\n") >= number:
                process.send_signal(signal.SIGKILL)
                ended.set()
        deaths += process.wait() == -signal.SIGKILL
        process.stderr.close()
    assert deaths == 2
    assert start(place).wait() == 0
    pairs = zip(events(place), events(tmp_path / "whole"), strict=True)
    assert all(figures(one) == figures(other) for one, other in pairs)
    assert len(rows(place)) == 4
    tables = [path / "out" / "graphs" for path in (place, tmp_path / "whole")]
    assert [p.name for p in sorted(tables[0].iterdir())] == [
        p.name for p in sorted(tables[1].iterdir())
    ]


@pytest.mark.parametrize("torn", ["events.jsonl", "timeline.csv"])
def test_rows_beyond_the_state_and_torn_ones_are_cut_off(place, capsys, torn):
    run(capsys, *watch(place))
    whole = (place / "out" / torn).read_text()
    for more in ('{"number": 5, "na', whole.splitlines()[-1] + "\n"):
        (place / "out" / torn).write_text(whole + more)
        code, _, _ = run(capsys, *watch(place))
        assert code == 0
        assert (place / "out" / torn).read_text() == whole
