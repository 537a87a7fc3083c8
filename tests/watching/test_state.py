"""The state: what is saved goes on, and what is broken is refused in one line."""

import json

import pytest
import torch
from safetensors.torch import load_file
from small_streams import WEIGHTS, day, source_graph, trained

import matcha_gnn as mg
from matcha_gnn.watching.last import changes_of, with_changes
from tensor_files import forge, metadata_of


def watched(**options):
    return mg.Watch(trained(), strategy=WEIGHTS, level=0.9, **options)


def same(one, other):
    left_out = {"seconds": 0}
    return one.figures() | left_out == other.figures() | left_out


@pytest.fixture
def saved(tmp_path):
    watch = watched(source=source_graph(), resamples=3)
    watch.observe(day(0.1, 1), "2026-05-01", "a")
    watch.observe(day(0.4, 2), "2026-05-02", "b")
    watch.save(tmp_path / "state.safetensors")
    return watch, tmp_path / "state.safetensors"


def test_a_restored_watch_goes_on_as_if_nothing_had_happened(saved):
    watch, path = saved
    other = watched()
    other.restore(path)
    assert str(other.steps) == str(watch.steps)
    assert other.chances == watch.chances
    assert watch.last is not None
    pairs = zip(other.last.state_dict().items(), watch.last.state_dict().items(), strict=True)
    assert all(a == b and torch.equal(s, t) for (a, s), (b, t) in pairs)
    graph = day(0.1, 3)
    assert same(other.observe(graph, "2026-05-03"), watch.observe(graph, "2026-05-03"))


def test_a_restored_watch_does_not_measure_chance_again(saved):
    watch, path = saved
    other = watched(source=source_graph(), resamples=9)
    other.restore(path)
    other.observe(day(0.4, 3))
    assert [chance.graphs for chance in other.chances.values()] == [3] * len(mg.AlarmKind)


def test_another_level_is_held_against_the_same_graphs(saved):
    _, path = saved
    other = mg.Watch(trained(), strategy=WEIGHTS, level=0.9999)
    other.restore(path)
    assert other.chances[mg.AlarmKind.LEVEL] == (3, 3)


def test_another_strategy_drops_what_was_measured_by_chance(saved):
    _, path = saved
    other = mg.Watch(trained(), level=0.9)
    other.restore(path)
    assert other.number == 2
    assert other.chances[mg.AlarmKind.LEVEL].graphs == 0


def test_the_state_does_not_grow_with_the_stream(tmp_path):
    watch, sizes = watched(), []
    for number in range(1100):
        watch.skip("none", "2026-05-01", f"{number:05d}")
        if number in (999, 1099):
            watch.save(tmp_path / "s.safetensors")
            sizes.append((tmp_path / "s.safetensors").stat().st_size)
    assert sizes[1] == pytest.approx(sizes[0], rel=0.01)


def test_a_state_of_another_model_is_refused(saved):
    _, path = saved
    model = mg.GPRGNN(24, 2, hidden_channels=8, K=4)
    mg.fit(model, source_graph(), epochs=3)
    with pytest.raises(mg.InvalidFileError, match="made with another model"):
        mg.Watch(model).restore(path)


def test_broken_files_are_refused_in_one_line_and_change_nothing(saved, tmp_path):
    _, path = saved
    metadata, tensors = metadata_of(path), load_file(path)
    content = json.loads(metadata["watch"])
    broken = {
        "cut": path.read_bytes()[:100],
        "text": b"hello",
        "format": (tensors, metadata | {"format": "matcha-gnn watch 99"}),
        "json": (tensors, metadata | {"watch": "{"}),
        "fields": (tensors, metadata | {"watch": json.dumps(content | {"steps": [{"a": 1}]})}),
        "number": (tensors, metadata | {"watch": json.dumps(content | {"number": None})}),
        "infinite": ({"gamma": torch.full((5,), torch.inf)}, metadata),
        "unknown": ({"other": torch.ones(5)}, metadata),
        "shape": ({"gamma": torch.ones(99)}, metadata),
    }
    for name, parts in broken.items():
        bad, watch = tmp_path / f"{name}.safetensors", watched()
        if isinstance(parts, bytes):
            bad.write_bytes(parts)
        else:
            forge(bad, *parts)
        with pytest.raises(mg.InvalidFileError, match=r"^state: got .*; allowed: ") as refused:
            watch.restore(bad)
        assert "\n" not in str(refused.value)
        assert (watch.number, watch.last) == (0, None)
    with pytest.raises(mg.InvalidFileError, match="no such file"):
        watched().restore(tmp_path / "nothing.safetensors")


def test_only_what_differs_from_the_source_is_kept():
    adapted = mg.adapt(trained(), day(0.1, 1), strategy=mg.Fitted()).model
    changes = changes_of(adapted, trained())
    assert list(changes) == ["gamma"]
    again = with_changes(trained(), changes)
    assert again.gamma.equal(adapted.gamma)
    assert changes_of(trained(), trained()) == {}


def test_an_intercept_comes_back():
    model = with_changes(trained(), {})
    model.move(intercept=torch.tensor([0.5, -0.5]))
    changes = changes_of(model, trained())
    assert list(changes) == ["head.bias"]
    graph = day(0.5, 1)
    again = with_changes(trained(), changes)
    assert mg.predict(again, graph).probs.equal(mg.predict(model, graph).probs)
    assert trained().head.bias is None


def test_wrapped_networks_can_be_watched_and_restored(tmp_path):
    from torch_geometric.nn import GCN

    torch.manual_seed(0)
    model = mg.add_hops(GCN(24, 8, num_layers=2, out_channels=2).eval())
    mg.summarise_source(model, source_graph())
    strategy = mg.Guarded(strategies=(mg.Matcha(rounds=3),))
    watch = mg.Watch(model, strategy=strategy)
    watch.observe(day(0.3, 1))
    watch._last = mg.adapt(model, day(0.3, 1), strategy=mg.Matcha(rounds=3)).model
    watch.save(tmp_path / "s.safetensors")
    other = mg.Watch(model, strategy=strategy)
    other.restore(tmp_path / "s.safetensors")
    assert other.last.gamma.equal(watch.last.gamma)
