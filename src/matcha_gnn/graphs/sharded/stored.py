"""One rank's shard of a stored graph: it reads its rows, and stores its hops."""

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import torch
import xxhash
from torch import Tensor

from matcha_gnn.gamma.hops import Hops
from matcha_gnn.gamma.models import FilterBackbone
from matcha_gnn.graphs.sharded.partition import contiguous
from matcha_gnn.graphs.sharded.ranks import Ranks
from matcha_gnn.graphs.sharded.shard import GraphShard, RankShard, Rows, assembled
from matcha_gnn.graphs.stored import GraphStore
from matcha_gnn.graphs.stored.arrays import as_bytes
from matcha_gnn.graphs.stored.propagation import HopFiles
from matcha_gnn.io.files import output_folder, sweep
from matcha_gnn.typing import Repr


@dataclass(frozen=True, eq=False)
class StoredShard(GraphShard):
    """A shard of a store; the hops of a filter are stored with the graph, a file for each.

    Attributes:
        store: the folder.
        content: a hash of what all ranks have read of it.
    """

    store: GraphStore = field(kw_only=True)
    content: str = field(kw_only=True)

    @property
    def fingerprint(self) -> str:
        """Of what was read, and of the rank."""
        ranks = self.shard.ranks
        return f"{self.content}-{ranks.rank}-of-{ranks.size}"

    @property
    def make_hops(self) -> Any:  # type: ignore[override]
        """Computes a model's hops, or resumes an earlier run."""
        return partial(hops_of, graph=self)


def shard_of_store(store: GraphStore, ranks: Ranks) -> StoredShard:
    """This rank's shard of a store on a file system that all ranks share.

    Args:
        store: the graph.
        ranks: of the run.
    """
    with ranks.agreeing("reading the store"):
        shard = RankShard(ranks, contiguous(store.indptr.array, ranks.size))
        rows, digest = _rows(store, shard)
    plain = assembled(shard, rows)
    values = {each.name: getattr(plain, each.name) for each in fields(plain) if each.init}
    return StoredShard(**values, store=store, content=_of_all(digest, ranks))


def _of_all(digest: bytes, ranks: Ranks) -> str:
    """One hash from those of all ranks."""
    here = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
    return xxhash.xxh3_128_hexdigest(ranks.gather(here, purpose="fingerprint").numpy().data)


def _rows(store: GraphStore, shard: RankShard) -> tuple[Rows, bytes]:
    """The rows of this rank, checked, and a hash of them."""
    first, last = shard.start, shard.stop
    starts = np.array(store.indptr.rows(first, last + 1))
    begin, end = int(starts[0]), int(starts[-1])
    x, senders = store.x.rows(first, last), np.array(store.indices.rows(begin, end))
    values, digest = np.array(store.values.rows(begin, end)), xxhash.xxh3_128()
    for array, block in zip(store.arrays, (x, starts, senders, values), strict=True):
        store.arrays.check_block(array, block)
        digest.update(as_bytes(block))
    shape = (last - first, store.num_nodes)
    receivers = np.repeat(np.arange(first, last), np.diff(starts))
    rows = Rows(
        matrix=scipy.sparse.csr_array((values, senders, starts - begin), shape=shape),
        x=torch.from_numpy(x),
        edges=np.stack([senders.astype(np.int64), receivers]),
        links=store.links.numpy().astype(np.int64),
    )
    return rows, digest.digest()


@torch.no_grad()
def hops_of(model: FilterBackbone, graph: StoredShard) -> Hops:
    """A model's hops of this rank's nodes: stored ones are read, others computed and stored.

    All ranks resume from the last hop that all of them have.
    """
    key, ranks = model.hops_key(graph), graph.shard.ranks
    shape = (graph.num_nodes, model.num_hops + 1, model.head.in_features)
    folder = graph.store.hops_folder(key.encoder, graph.content)
    name = f"rank-{ranks.rank}-of-{ranks.size}"
    files = HopFiles(folder / name, shape, shape[2])
    with ranks.agreeing("opening the stored hops"):
        output_folder(files.folder)
        sweep(files.folder, "hop-*.npy")
        missing = files.missing()
    ready = min(ranks.counts(missing[0][0] if missing else shape[1]))
    stack = torch.empty(shape, device=graph.device)
    for hop in range(ready):
        stack[:, hop] = _loaded(files, hop)
    for hop in range(ready, shape[1]):
        stack[:, hop] = made = _made(model, graph, stack, hop)
        if not files.path(hop, 0).is_file():
            with files.writing(hop, 0) as file:
                file.write(files.stored(made).numpy())
    return Hops(stack, key, graph.shard)


def _made(model: FilterBackbone, graph: StoredShard, stack: Tensor, hop: int) -> Repr:
    """A hop from the stored one before it, so that a resumed run gives the same numbers."""
    if hop == 0:
        return model.encode(model.accept(graph.x))
    return graph.adjacency @ stack[:, hop - 1]


def _loaded(files: HopFiles, hop: int) -> Tensor:
    return torch.from_numpy(files.opened(hop, 0).array)
