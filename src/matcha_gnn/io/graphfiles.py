"""Graph files: `.npz` without pickles, and PyG `Data` in `.pt`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from matcha_gnn.errors import InvalidFileError, InvalidGraphError, require_flag
from matcha_gnn.graphs.extras import LABELS
from matcha_gnn.graphs.memory import GraphLike, csr_parts, unlabelled
from matcha_gnn.io.archives import Arrays, require_whole
from matcha_gnn.io.files import a_path, existing_file, replacing
from matcha_gnn.kernels.sparse import csr_tensor, no_beta_warning

if TYPE_CHECKING:
    from torch_geometric.data import Data


BASIC = ("x", "edge_index", "edge_weight", *LABELS)
CSR_NAMES = ("x_indptr", "x_indices", "x_data", "x_shape")
"""Arrays of sparse features."""


def read_graph(path: str | Path, check_labels: bool = True, further: bool = True) -> "Data":
    """Read a graph file: `.npz` without pickles, or `.pt` with `weights_only=True`.

    No array is read before what it declares is known to be what the file has.

    Args:
        path: the file. An `.npz` holds `x` [N, F], or `x_data`, `x_indices`, `x_indptr`,
            `x_shape` of a CSR matrix; `edge_index` [2, E]; and may hold `edge_weight` [E],
            `y` [N], `train_mask`, `val_mask`, `test_mask` [N], and further fields of the graph,
            such as `edge_attr`.
        check_labels: refuse labels and masks that have not one row for each node; a target's,
            which only scores need, can be left as they are.
        further: read further fields of an `.npz`; only networks of your own need them.

    Returns:
        A PyG `Data`, checked; sparse features stay sparse.

    Raises:
        InvalidFileError: missing, not readable, or parts are missing.
        InvalidGraphError: readable, but not a graph.
    """
    require_flag("check_labels", check_labels)
    require_flag("further", further)
    path = existing_file(path, "graph")
    if path.suffix not in (".npz", ".pt"):
        raise InvalidFileError("graph", path, "a file named .npz or .pt")
    data = _read_pt(path) if path.suffix == ".pt" else _read_npz(path, further)
    num_nodes = unlabelled(data).num_nodes
    if check_labels:
        _check_node_values(data, num_nodes)
    return data


def _check_node_values(graph: GraphLike, num_nodes: int) -> None:
    """Labels and masks, where there are any, have one row for each node."""
    for name in LABELS:
        values = getattr(graph, name, None)
        if values is None:
            continue
        if not isinstance(values, Tensor) or values.shape[:1] != (num_nodes,):
            is_tensor = isinstance(values, Tensor)
            kind = getattr(values, "dtype", type(values).__name__)
            got = f"shape {list(values.shape)}" if is_tensor else kind
            allowed = f"a tensor of numbers with one row for each of {num_nodes} nodes"
            raise InvalidGraphError(f"graph.{name}", got, allowed)


def _read_npz(path: Path, further: bool) -> "Data":
    from torch_geometric.data import Data

    needed = {*BASIC, *CSR_NAMES}
    try:
        file = Arrays(path)
        arrays = {name: file.read(name) for name in file.names if further or name in needed}
    # Bytes that are no array file fail in any way: bad zip, bad header, bad compression, …
    except Exception as error:
        raise InvalidFileError(
            "graph", f"{path} (not a plain array file)", "an .npz written without pickles"
        ) from error
    if "edge_index" not in arrays:
        raise InvalidFileError("graph", f"{path} (no array edge_index)", "an .npz graph")
    data = Data(x=_features_from(arrays, path), edge_index=_tensor(arrays, "edge_index"))
    for name in arrays.keys() - {"x", "edge_index", *CSR_NAMES}:
        is_label = name in LABELS
        data[name] = _tensor_or_array(arrays, name) if is_label else _tensor(arrays, name)
    return data


def _tensor_or_array(arrays: dict[str, Any], name: str) -> Any:
    """As a tensor, or as it is where torch has no such type, as for text."""
    try:
        return _tensor(arrays, name)
    except InvalidGraphError:
        return arrays[name]


def _tensor(arrays: dict[str, Any], name: str) -> Tensor:
    array = arrays[name]
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, AttributeError) as error:
        got = getattr(array, "dtype", type(array).__name__)
        raise InvalidGraphError(f"graph.{name}", got, "an array of numbers") from error


def _features_from(arrays: dict[str, Any], path: Path) -> Tensor:
    if "x" in arrays:
        return _tensor(arrays, "x")
    if any(name not in arrays for name in CSR_NAMES):
        allowed = "x, or all of x_data, x_indices, x_indptr, x_shape"
        raise InvalidFileError("graph", f"{path} (no array x)", allowed)
    indptr, indices, values, shape = (_tensor(arrays, name).numpy() for name in CSR_NAMES)
    try:
        matrix = scipy.sparse.csr_array((values, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
        whole = all(part.dtype.kind in "iu" for part in (indptr, indices, shape))
    except (ValueError, TypeError):
        whole = False
    if not whole or matrix.nnz != len(values):
        raise InvalidGraphError("graph.x", f"{path} (broken CSR parts)", "a CSR matrix")
    # SciPy allows columns in any order and repeated; torch does not.
    matrix.sum_duplicates()
    return csr_tensor(matrix, torch.from_numpy(values).dtype)


def _read_pt(path: Path) -> "Data":
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    known = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    # Opened to be refused by its name.
    known += [HeteroData, BaseStorage, NodeStorage, EdgeStorage]
    # For good, as PyG does with its own classes: torch has one such list for all threads, and who
    # takes a class off it takes it from the others, too.
    torch.serialization.add_safe_globals(known)
    try:
        require_whole(path)
        with no_beta_warning():
            data = torch.load(path, map_location="cpu", weights_only=True)
    # A refused class, a truncated archive, a tensor that breaks its own rules, …
    except Exception as error:
        allowed = "a PyG Data saved with torch.save, readable with weights_only=True"
        raise InvalidFileError("graph", f"{path} (cannot be read safely)", allowed) from error
    if isinstance(data, HeteroData):
        got = f"{path} (a HeteroData: several node types are not supported)"
        raise InvalidFileError("graph", got, "one Data: data.to_homogeneous() makes it")
    if not isinstance(data, Data):
        raise InvalidFileError("graph", f"{path} ({type(data).__name__})", "a PyG Data")
    return data


def write_graph(graph: GraphLike, path: str | Path) -> None:
    """Write a graph as `.npz` or `.pt`, whole or not at all; see `read_graph` for the parts.

    Raises:
        InvalidFileError: another kind of file.
        InvalidGraphError: no graph, or a further field that is no dense tensor.

    Example:
        >>> import tempfile
        >>> from torch_geometric.data import Data
        >>> path = Path(tempfile.mkdtemp()) / "g.npz"
        >>> write_graph(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])), path)
        >>> read_graph(path).x.shape
        torch.Size([2, 1])
    """
    from torch_geometric.data import Data

    path = a_path(path, "output")
    writers: dict[str, Callable[[Data, BinaryIO], None]]
    writers = {".npz": _write_npz, ".pt": torch.save}
    if path.suffix not in writers:
        raise InvalidFileError("output", path, "a file named .npz or .pt")
    view = unlabelled(graph)
    _check_node_values(graph, view.num_nodes)
    extra = {name: getattr(graph, name, None) for name in ("edge_weight", *LABELS)}
    extra |= {name: value for name, value, _ in view.extras.fields}
    for name, value in extra.items():
        if value is not None and (not isinstance(value, Tensor) or value.layout != torch.strided):
            raise InvalidGraphError(f"graph.{name}", type(value).__name__, "a dense tensor")
    parts = {"x": view.x, "edge_index": view.edge_index, **extra}
    plain = Data(**{name: t.detach().cpu() for name, t in parts.items() if t is not None})
    with replacing(path) as beside, open(beside, "wb") as file:
        writers[path.suffix](plain, file)


def _write_npz(graph: "Data", file: BinaryIO) -> None:
    parts = dict(graph)
    x = parts.pop("x")
    if x.layout == torch.sparse_csr:
        whole = (*csr_parts(x), torch.tensor(x.shape))
        parts |= dict(zip(CSR_NAMES, whole, strict=True))
    else:
        parts["x"] = x
    np.savez(file, **{name: part.numpy() for name, part in parts.items()})
