"""Damaged files: every format that is read, with seeded changes of its bytes."""

import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.torch import load_file

import matcha_gnn as mg
from matcha_gnn.gamma.testing import tiny_graph, trained_model
from matcha_gnn.graphs.memory import unlabelled
from matcha_gnn.io.asked import read_asked
from matcha_gnn.io.outputs import Made, write_outputs


class Format(NamedTuple):
    """A file, how it is read, and what it says."""

    name: str
    path: Path
    read: Callable[[], Any]
    meaning: Callable[[], Any]


def damaged(whole: bytes, draw: random.Random) -> bytes:
    """One to eight bytes are others, or some are missing, doubled or swapped."""
    data, how = bytearray(whole), draw.choice(["bytes", "bytes", "bytes", "cut", "double", "swap"])
    at, size = draw.randrange(len(data)), draw.randrange(1, 64)
    if how == "cut":
        del data[at : at + size]
    elif how == "double":
        data[at:at] = data[at : at + size]
    elif how == "swap":
        data[at : at + 2 * size] = data[at + size : at + 2 * size] + data[at : at + size]
    else:
        for _ in range(draw.choice([1, 1, 2, 8])):
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def formats(folder: Path) -> Iterator[Format]:
    """Each in a folder of its own."""
    model, graph = trained_model(), tiny_graph()
    for name in ("model", "source"):
        path = folder / f"{name}.safetensors"
        yield Format(name, path, _tensor_reader(name, path), lambda path=path: _tensors(path))
    for name in ("g.npz", "g.pt"):
        path = folder / name
        mg.write_graph(graph, path)
        read = lambda path=path: mg.read_graph(path)  # noqa: E731
        yield Format(name, path, read, lambda read=read: _parts(read()))
    result = mg.adapt(model, graph)
    result.ask(5)
    write_outputs(result, folder / "asked", None, None, Made(page=False, call={"a": 1}))
    view = unlabelled(graph)
    again = lambda: read_asked(folder / "asked", view, mg.ERM(), mg.Guarded())  # noqa: E731
    for name in ("asked.json", "candidates.npz", "candidate-0.safetensors"):
        path = folder / "asked" / name
        says = _tensors if path.suffix == ".safetensors" else _loaded
        yield Format(name, path, again, lambda path=path, says=says: says(path))
    answers = folder / "answers.csv"
    node = int(result.questions.asked[0])
    answers.write_text(f"node,label\n{node},1\n")
    yield Format("answers.csv", answers, lambda: result.answer(answers), lambda: None)


def _tensor_reader(name: str, path: Path) -> Callable[[], Any]:
    model = trained_model()
    if name == "model":
        mg.save_model(model, path)
        return lambda: mg.load_model(path)
    model.source.save(path)
    return lambda: mg.SourceSummary.load(path)


def _tensors(path: Path) -> Any:
    with safe_open(str(path), framework="pt") as file:
        said = file.metadata()
    return said, {n: (str(t.dtype), t.tolist()) for n, t in load_file(path).items()}


def _parts(graph: Any) -> Any:
    return {name: value.tolist() for name, value in dict(graph).items()}


def _loaded(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    with np.load(path) as arrays:
        return {name: arrays[name].tolist() for name in arrays.files}


class Tally(NamedTuple):
    """What became of damaged files of one format; `wrong` says what should not have been."""

    tried: int
    refused: int
    same: int
    wrong: list[str]


def attack(form: Format, number: int, seed: int, *, any_meaning: bool = False) -> Tally:
    """Read damaged copies of a file; it is whole again afterwards.

    Args:
        form: of the file.
        number: of damaged copies.
        seed: of the damage.
        any_meaning: text that a person writes has no checksum: another meaning is no fault.
    """
    whole, before = form.path.read_bytes(), form.meaning()
    draw, refused, same, wrong = random.Random(f"{form.name} {seed}"), 0, 0, []
    try:
        for place in range(number):
            form.path.write_bytes(damaged(whole, draw))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _outcome(form)
            if found == "refused":
                refused += 1
            elif found == "read" and (any_meaning or form.meaning() == before):
                same += 1
            else:
                wrong.append(f"{form.name} {place}: {found}")
    finally:
        form.path.write_bytes(whole)
    return Tally(number, refused, same, wrong)


def _outcome(form: Format) -> str:
    try:
        form.read()
    except mg.MatchaError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return "read"


FREE = ("answers.csv",)
"""Formats that a person writes."""
