"""Edges by receiver: sums over the incoming edges of each node, self loops left out."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from matcha_gnn.kernels.devices import device_of
from matcha_gnn.kernels.fallback import or_plain
from matcha_gnn.kernels.propagate import MAX_DEGREE
from matcha_gnn.kernels.sparse import csr_of, row_blocks, row_starts

LEAST_LIFT = 1e-12
MOST_NARROW = 2**31
"""Numbers of nodes and edges below it are kept in four bytes."""


@dataclass(frozen=True, eq=False)
class BeliefMessage:
    """What nodes tell their neighbours of the neighbours' classes, as centred log-odds.

    Of all messages along edges this one has fast code.

    Attributes:
        lift: M(b|a) / π_b, how much more frequent a sender of class b is where the receiver is of
            class a, [C, C].

    Example:
        >>> message = BeliefMessage(torch.tensor([[1.8, 0.2], [0.2, 1.8]]))
        >>> message.of(torch.tensor([[0.0], [0.0]])).flatten().tolist()
        [0.0, 0.0]
    """

    lift: Tensor

    def of(self, logits: Tensor) -> Tensor:
        """Messages of senders with these log-probabilities, class by class, [C, n]."""
        found = (self.lift @ logits.softmax(0)).clamp_min_(LEAST_LIFT).log_()
        return found.sub_(found.mean(0))


@dataclass(frozen=True, eq=False)
class Links:
    """Incoming edges of each node without self loops, in CSR form; parallel edges are separate.

    Attributes:
        crow: where the edges of each receiver start, [N+1].
        sender: [E'].

    Example:
        >>> links = Links.of(torch.tensor([[0, 2, 1], [1, 1, 1]]), 3)
        >>> links.sums(torch.tensor([[1.0], [2.0], [4.0]]))
        tensor([[0.],
                [5.],
                [0.]])
    """

    crow: Tensor
    sender: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> "Links":
        """Sort edges [2, E] by receiver and, if none are parallel, by sender, where they are."""
        sender, receiver = edge_index
        apart = sender != receiver
        sender, receiver = sender[apart], receiver[apart]
        places = (receiver * num_nodes + sender).sort().values
        if bool((places.diff() == 0).any()):
            places = sender[torch.argsort(receiver, stable=True)]
        narrow = torch.int32 if max(num_nodes, len(places)) < MOST_NARROW else torch.int64
        starts = row_starts(receiver, num_nodes).to(narrow)
        return cls(starts, (places % num_nodes).to(narrow))

    def sums(self, values: Tensor) -> Tensor:
        """Σ over the incoming edges of each node of the sender's row of values [N, C]: [N, C]."""
        num_nodes = len(self.crow) - 1
        ones = torch.ones(len(self.sender), dtype=values.dtype, device=values.device)
        found: Tensor = csr_of(self.crow, self.sender, ones, (num_nodes, num_nodes)) @ values
        return found

    def message_sums(self, message: BeliefMessage, sent: Tensor, received: Tensor) -> Tensor:
        """Σ over the incoming edges of each node of their messages, [N, C].

        Args:
            message: from log-probabilities of senders without what the receivers told them.
            sent: log-probabilities, [N, C].
            received: what nodes told their neighbours before, [N, C].
        """
        module = device_of(sent).fast_code(torch.float32)
        fits = sent.shape[1] <= getattr(module, "MAX_MESSAGE", 0)
        if module is None or not fits or not 0 < self.max_degree <= MAX_DEGREE:
            return self.plain_sums(message, sent, received)

        def plain(crow: Tensor, sender: Tensor, lift: Tensor, *ends: Tensor) -> Tensor:
            return self.plain_sums(message, *ends)

        fast = or_plain(module.message_sums, plain)
        return fast(self.crow, self.sender, message.lift, sent, received)

    def plain_sums(self, message: BeliefMessage, sent: Tensor, received: Tensor) -> Tensor:
        """The reference of `message_sums`, in blocks of edges."""
        sent, received, num_rows = sent.contiguous(), received.T, len(self.crow) - 1
        total = torch.zeros_like(received, memory_format=torch.contiguous_format)
        most = device_of(sent).block_floats // (32 * sent.shape[1])
        step = max(1, num_rows * most // max(1, len(self.sender)))
        for rows, edges, starts in row_blocks(self.crow, step):
            here = torch.arange(rows.stop - rows.start, device=starts.device)
            count = edges.stop - edges.start
            receiver = torch.repeat_interleave(here, starts.diff(), output_size=count)
            sender = sent.index_select(0, self.sender[edges]).T.contiguous()
            messages = message.of(sender - received[:, rows].index_select(1, receiver))
            if messages.is_cpu:
                for of_class, found in zip(total[:, rows], messages, strict=True):
                    of_class.index_add_(0, receiver, found)
            else:
                # Scattered additions on a GPU would change from run to run.
                total[:, rows] = torch.segment_reduce(
                    messages.T.contiguous(), "sum", offsets=starts, unsafe=True, initial=0
                ).T
        return total.T

    @cached_property
    def max_degree(self) -> int:
        """Edges of the node that receives most."""
        return int(self.crow.diff().max()) if len(self.crow) > 1 else 0
