"""Safetensors files with other content, and a checksum that fits it: as someone else may write."""

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from matcha_gnn.io.tensorfiles import CHECKSUM, checksum


def metadata_of(path):
    with safe_open(str(path), framework="pt") as file:
        return dict(file.metadata() or {})


def forge(path, tensors, metadata):
    """Write tensors and texts with their checksum."""
    said = {name: text for name, text in metadata.items() if name != CHECKSUM}
    save_file(tensors, path, said | {CHECKSUM: checksum(said, tensors)})


def rewritten(path, *, tensors=None, metadata=None):
    """Change entries of a file; None takes an entry out."""
    parts = [load_file(path) | (tensors or {}), metadata_of(path) | (metadata or {})]
    forge(path, *({n: value for n, value in part.items() if value is not None} for part in parts))
    return path
