"""Every safetensors file says what it is, and damage is refused instead of used."""

import pytest
import torch
from matcha_gnn.io.asked import read_call
from matcha_gnn.testing import tiny_graph, trained_model
from safetensors.torch import load_file, save_file

import matcha_gnn as mg
from matcha_gnn.evidence import summary_files
from matcha_gnn.io import models
from matcha_gnn.io.outputs import Made, write_outputs
from matcha_gnn.io.tensorfiles import CHECKSUM, checksum
from tensor_files import metadata_of, rewritten


def write_model(path):
    mg.save_model(trained_model(), path)


def write_summary(path):
    trained_model().source.save(path)


KINDS = {
    "model": (write_model, mg.load_model, models.FORMAT),
    "source": (write_summary, mg.SourceSummary.load, summary_files.FORMAT),
}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    write, read, form = KINDS[request.param]
    path = tmp_path / "file.safetensors"
    write(path)
    return path, read, form


def test_a_file_has_the_format_of_this_version_and_its_checksum(kind):
    path, _, form = kind
    metadata = metadata_of(path)
    given = metadata.pop(CHECKSUM)
    assert metadata["format"] == form.name
    assert given == checksum(metadata, load_file(path))


def test_one_changed_number_is_noticed(kind):
    path, read, _ = kind
    tensors, metadata = load_file(path), metadata_of(path)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point())
    tensors[name] = tensors[name] + 1e-3
    save_file(tensors, path, metadata)
    with pytest.raises(mg.InvalidFileError, match="checksum is not that of its content"):
        read(path)


def test_one_more_text_is_noticed(kind):
    path, read, _ = kind
    save_file(load_file(path), path, metadata_of(path) | {"more": "text"})
    with pytest.raises(mg.InvalidFileError, match="checksum is not that of its content"):
        read(path)


def test_a_file_without_its_checksum_is_refused(kind):
    path, read, _ = kind
    metadata = {name: text for name, text in metadata_of(path).items() if name != CHECKSUM}
    save_file(load_file(path), path, metadata)
    with pytest.raises(mg.InvalidFileError, match="no checksum: damaged"):
        read(path)


def test_a_file_of_an_older_format_is_refused(kind):
    path, read, form = kind
    rewritten(path, metadata={"format": form.name.rpartition(" ")[0] + " 1"})
    with pytest.raises(mg.InvalidFileError, match="too old"):
        read(path)


def test_a_file_of_a_newer_format_says_what_to_do(kind):
    path, read, form = kind
    newer = form.name.rpartition(" ")[0] + " 99"
    rewritten(path, metadata={"format": newer})
    with pytest.raises(mg.InvalidFileError, match="newer version of matcha-gnn: install it"):
        read(path)


def test_sizes_in_a_small_file_take_no_memory(tmp_path):
    """16 GB of weights by the configuration, and a few kB in the file."""
    import resource

    path = tmp_path / "file.safetensors"
    config = '{"in_channels": 9000, "out_channels": 9000, "hidden_channels": 9000, "K": 2}'
    write_model(path)
    mg.load_model(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for size in ("9000", "400000000"):
        rewritten(path, metadata={"config": config.replace("9000", size)})
        with pytest.raises(mg.InvalidFileError, match="numbers|architecture has"):
            mg.load_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_reading_leaves_the_random_numbers_alone(tmp_path):
    write_model(tmp_path / "file.safetensors")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    mg.load_model(tmp_path / "file.safetensors")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_changed_digit_in_the_record_of_questions_is_noticed(tmp_path):
    result = mg.adapt(trained_model(), tiny_graph())
    result.ask(5)
    write_outputs(result, tmp_path, None, None, Made(page=False))
    path = tmp_path / "asked.json"
    assert '"format": "matcha-gnn questions 4"' in path.read_text()
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1', 1))
    with pytest.raises(mg.InvalidFileError, match="checksum is not that of its content"):
        read_call(tmp_path)
