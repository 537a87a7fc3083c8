"""What a figure shows, as rows of a CSV file: measured once, drawn from the file ever after."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import output_folder, replacing
from matcha_gnn.typing import Progress

Row = dict[str, Any]
Rows = list[Row]


@dataclass(frozen=True)
class Effort:
    """How much to run.

    Attributes:
        seeds: over which means are taken; a picture shows the first.
        quick: small graphs and few rounds.
        device: where training and adaptation run.
        jobs: processes where several source models can be trained at once.
        results: the folder of records.
        progress: called with what is done and what there is to do.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    quick: bool = False
    device: str = "cpu"
    jobs: int | None = None
    results: Path = Path("results")
    progress: Progress | None = None

    def each_seed(self) -> Iterable[int]:
        """The seeds, with progress told after each."""
        for done, seed in enumerate(self.seeds):
            yield seed
            if self.progress:
                self.progress(done + 1, len(self.seeds))


def write_rows(rows: Rows, path: Path) -> None:
    """A CSV file with the first row's keys as header; numbers to six digits."""
    output_folder(path.parent)
    with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)


def read_rows(path: Path) -> Rows:
    """The same rows; what looks like a number is one, what is empty is None."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [
                {key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)
            ]
    except OSError as error:
        raise InvalidFileError("results", f"{path} ({error.strerror})", "a figure's CSV") from error
    return rows


def select(rows: Rows, **wanted: Any) -> Rows:
    """Rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def column(rows: Rows, key: str) -> list[Any]:
    """One value of each row."""
    return [row[key] for row in rows]


def distinct(rows: Rows, key: str) -> list[Any]:
    """The values of a key, each once, in order of appearance."""
    return list(dict.fromkeys(column(rows, key)))


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, which one value does not have: 0."""
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _value(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
