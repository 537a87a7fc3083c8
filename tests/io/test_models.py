"""Model files: bit-identical round trips, and one clear line for everything else."""

import json
import pickle

import pytest
import torch
from matcha_gnn.io.models import FORMAT, load_model, save_model
from safetensors.torch import save_file

from matcha_gnn.datasets import csbm
from matcha_gnn.errors import IncompatibleError, InvalidFileError, MatchaError
from matcha_gnn.gamma.models import GPRGNN
from matcha_gnn.gamma.train import fit
from tensor_files import metadata_of, rewritten

GRAPH = csbm(num_nodes=60, num_features=6, degree=3, seed=0)


def trained(**options):
    model = GPRGNN(6, 2, **({"hidden_channels": 4, "K": 3} | options))
    fit(model, GRAPH, epochs=3)
    return model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(trained(), path)
    return path


def assert_refused(path, match):
    with pytest.raises(InvalidFileError, match=match) as error:
        load_model(path)
    line = str(error.value)
    assert len(line.splitlines()) == 1
    assert line.startswith(f"model: got {path}")
    assert "; allowed: " in line


# Files that are right


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"K": 0},
        {"relu": False, "dropout": 0.1, "alpha": 0.3},
        {"gamma_start": [0.1, 0.2, 0.3, 0.4]},
        {"gamma_start": "random"},
    ],
)
def test_round_trip_is_bit_identical(tmp_path, options):
    model = trained(**options)
    save_model(model, tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert type(back) is type(model)
    assert back.config() == model.config()
    assert list(back.state_dict()) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert back.state_dict()[name].dtype == value.dtype
        assert torch.equal(back.state_dict()[name], value), name
    assert torch.equal(back(GRAPH.x, GRAPH.edge_index), model(GRAPH.x, GRAPH.edge_index))


def test_round_trip_keeps_the_source_summary_bit_for_bit(tmp_path):
    model = trained()
    save_model(model, tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors").source.tensors()
    expected = model.source.tensors()
    assert back.keys() == expected.keys()
    for name, value in expected.items():
        assert back[name].shape == value.shape
        assert torch.equal(back[name], value), name


def test_round_trip_of_a_double_model_loses_nothing(tmp_path):
    model = trained().double()
    with torch.no_grad():
        model.gamma.add_(1e-12)
    save_model(model, tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert back.gamma.dtype == torch.float64
    assert torch.equal(back.gamma, model.gamma)


def test_an_untrained_model_has_no_summary(tmp_path):
    save_model(GPRGNN(6, 2), tmp_path / "m.safetensors")
    assert load_model(tmp_path / "m.safetensors").source is None


def test_a_loaded_model_is_ready_to_predict_and_to_train_again(saved):
    model = load_model(saved)
    assert not model.training
    assert all(p.requires_grad for p in model.parameters())


def test_saving_leaves_the_model_alone(tmp_path):
    model = trained().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    save_model(model, tmp_path / "m.safetensors")
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_loaded_model_does_not_depend_on_the_file(saved):
    model = load_model(saved)
    before = model.head.weight.clone(), model.source.class_prior.clone()
    saved.write_bytes(b"\0" * saved.stat().st_size)
    assert torch.equal(model.head.weight, before[0])
    assert torch.equal(model.source.class_prior, before[1])


def test_the_file_says_what_it_is(saved):
    metadata = metadata_of(saved)
    assert metadata["format"] == FORMAT.name
    assert metadata["backbone"] == "gprgnn"
    assert json.loads(metadata["config"])["K"] == 3


def test_the_file_holds_no_row_of_data(tmp_path):
    """Its size does not depend on the source graph."""
    sizes = []
    for num_nodes in (60, 600):
        model = GPRGNN(6, 2)
        fit(model, csbm(num_nodes=num_nodes, num_features=6, degree=3), epochs=1)
        save_model(model, tmp_path / "m.safetensors")
        sizes.append((tmp_path / "m.safetensors").stat().st_size)
    assert sizes[0] == sizes[1]


def test_a_failing_write_leaves_the_old_file_and_nothing_else(saved, monkeypatch):
    def full_disk(tensors, path, metadata):
        with open(path, "wb") as file:
            file.write(b"half a file")
        raise OSError("no space left")

    before = saved.read_bytes()
    monkeypatch.setattr("matcha_gnn.io.tensorfiles.save_file", full_disk)
    with pytest.raises(InvalidFileError, match="no space left.*; allowed: room to write"):
        save_model(GPRGNN(6, 2), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("where", ["plain/m.safetensors", "missing/m.safetensors", "folder"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, where):
    (tmp_path / "plain").write_text("a file, which no one can write below")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidFileError, match=r"^output: got .*; allowed: "):
        save_model(GPRGNN(6, 2), tmp_path / where)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "plain"]


# Files that are wrong


@pytest.mark.parametrize(("name", "reason"), [("nowhere", "no such file"), ("", "a folder")])
def test_what_is_no_file_is_refused(tmp_path, name, reason):
    assert_refused(tmp_path / name, reason)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a model", b"\xff" * 100, pickle.dumps({"gamma": [1.0]}), (2).to_bytes(8, "little")],
    ids=["empty", "text", "noise", "pickle", "header cut"],
)
def test_other_content_is_refused(tmp_path, content):
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    assert_refused(path, "not a safetensors file")


def test_a_torch_checkpoint_is_refused(tmp_path):
    torch.save(GPRGNN(6, 2).state_dict(), tmp_path / "m.safetensors")
    assert_refused(tmp_path / "m.safetensors", "not a safetensors file")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    assert_refused(saved, "not a safetensors file")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"format": "two\nlines"}])
def test_a_foreign_safetensors_file_is_refused(tmp_path, metadata):
    save_file({"weight": torch.ones(2)}, tmp_path / "m.safetensors", metadata)
    assert_refused(tmp_path / "m.safetensors", "allowed: a .safetensors file as matcha wrote it")


@pytest.mark.parametrize("name", ["transformer", "GPRGNN", "", "none"])
def test_another_architecture_is_refused_with_the_known_ones(saved, name):
    rewritten(saved, metadata={"backbone": name})
    assert_refused(saved, rf"architecture '{name}'\); allowed: .*gprgnn")


def test_a_file_without_architecture_is_refused(saved):
    assert_refused(rewritten(saved, metadata={"backbone": None}), "architecture")


def config_with(path, **changes):
    config = json.loads(metadata_of(path)["config"]) | changes
    return json.dumps({name: value for name, value in config.items() if value != "taken out"})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"in_channels": "taken out"}, "in_channels"),
        ({"heads": 8}, "heads"),
        ({"K": -1}, "K: got -1"),
        ({"hidden_channels": 2.5}, "hidden_channels: got 2.5"),
        ({"in_channels": "six"}, "in_channels: got six"),
        ({"gamma_start": {"a": 1}}, "gprgnn: "),
        ({"gamma_start": "pagerank"}, "gamma_start: got 'pagerank'"),
        ({"alpha": "large"}, "gprgnn: "),
        ({"dropout": None}, "gprgnn: "),
    ],
)
def test_a_config_that_does_not_fit_is_refused(saved, changes, match):
    rewritten(saved, metadata={"config": config_with(saved, **changes)})
    assert_refused(saved, match)


@pytest.mark.parametrize("config", [None, "", "{", "[1, 2]", "null", "3"])
def test_a_config_that_is_no_mapping_is_refused(saved, config):
    assert_refused(rewritten(saved, metadata={"config": config}), "gprgnn: ")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"K": 5, "gamma_start": "ppr"}, r"gamma: \[4\], the architecture has \[6\]"),
        ({"hidden_channels": 9}, r"\[.*\], the architecture has \[.*9"),
        ({"in_channels": 7}, r"linear\.weight: \[4, 6\], the architecture has \[4, 7\]"),
    ],
)
def test_weights_of_other_shapes_are_refused_by_name(saved, changes, match):
    rewritten(saved, metadata={"config": config_with(saved, **changes)})
    assert_refused(saved, match)


def test_missing_weights_are_refused_by_name(saved):
    assert_refused(rewritten(saved, tensors={"head.weight": None}), r"head\.weight: missing")


def test_unknown_weights_are_refused_by_name(saved):
    rewritten(saved, tensors={"head.bias": torch.zeros(2)})
    assert_refused(saved, r"head\.bias: \[2\], the architecture has missing")


def test_an_incomplete_summary_is_refused_by_name(saved):
    assert_refused(rewritten(saved, tensors={"source_summary.class_prior": None}), "class_prior")


def test_fields_that_a_summary_no_longer_has_are_ignored(saved):
    summary = load_model(saved).source
    rewritten(saved, tensors={"source_summary.norm_mean": torch.ones(8)})
    for name, value in load_model(saved).source.tensors().items():
        assert torch.equal(value, summary.tensors()[name]), name


def test_arrays_that_belong_to_no_method_are_refused(saved):
    assert_refused(
        rewritten(saved, tensors={"source_arrays.stray": torch.zeros(1)}), "not enough values"
    )


def test_source_arrays_of_base_methods_are_kept_bit_for_bit(tmp_path):
    model = trained()
    source_arrays = {
        "t3a": {"a.b": torch.randn(3), "c": torch.arange(4)},
        "tent": {"d": torch.ones(1)},
    }
    model.source_arrays = source_arrays
    save_model(model, tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors").source_arrays
    assert {m: set(kept) for m, kept in back.items()} == {"t3a": {"a.b", "c"}, "tent": {"d"}}
    for method, kept in source_arrays.items():
        for name, value in kept.items():
            assert torch.equal(back[method][name], value)


def test_damaged_bytes_never_end_in_another_kind_of_error(saved):
    whole = saved.read_bytes()
    draw = torch.Generator().manual_seed(0)
    messages = []
    for _ in range(80):
        damaged = bytearray(whole)
        # Most of the damage goes to the header, where the structure is.
        for place in torch.randint(min(len(whole), 1200), (3,), generator=draw).tolist():
            damaged[place] = int(torch.randint(256, (1,), generator=draw))
        saved.write_bytes(damaged)
        try:
            load_model(saved)
        except MatchaError as error:
            messages.append(str(error))
    assert messages
    assert all(len(message.splitlines()) == 1 for message in messages)


def test_a_class_of_the_users_own_is_refused_before_anything_is_written(tmp_path):
    class Mine(GPRGNN):
        pass

    with pytest.raises(IncompatibleError, match="Mine is no architecture"):
        save_model(Mine(4, 2), tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())
