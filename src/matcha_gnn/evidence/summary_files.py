"""Files of source summaries: safetensors with a format in them; never a pickle."""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from matcha_gnn.backbones.checks import first_non_finite
from matcha_gnn.errors import InvalidFileError
from matcha_gnn.io.files import existing_file, replacing

FORMAT = "matcha-gnn source summary 1"


def save_tensors(tensors: dict[str, Tensor], path: str | Path) -> None:
    """Write the tensors of a summary, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as beside:
        save_file(plain, str(beside), {"format": FORMAT})


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote; each failure is one line."""
    path = existing_file(path, "source")
    try:
        with safe_open(str(path), framework="pt") as file:
            given = (file.metadata() or {}).get("format", "no format")
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise not_a_summary(path, "not a safetensors file") from error
    if given != FORMAT:
        raise not_a_summary(path, repr(given))
    broken = first_non_finite(tensors)
    if broken is not None:
        raise not_a_summary(path, f"NaN or infinite entries in {broken}")
    return tensors


def not_a_summary(path: str | Path, why: str) -> InvalidFileError:
    """The error for a file that cannot be used."""
    allowed = "a file that mg.summarise_source(net, source).save(path) wrote"
    return InvalidFileError("source", f"{path} ({why})", allowed)
