"""What runs on the GPU: Triton programs, each over a range of nodes. `gpu` starts them."""

import triton
import triton.language as tl

program = triton.jit(do_not_specialize=["num_nodes", "share", "ranges", "masses"])
"""What the host starts: compiled once for graphs of any size."""


@program
def softmax(
    logits, hop_weights, bias, probs, mass, num_nodes,
    HOPS: tl.constexpr, LAST: tl.constexpr, CLASSES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Softmax of the mixed hop logits of one block of nodes; the last class has logit 0."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    classes = tl.arange(0, CLASSES)
    inside = rows[:, None] < num_nodes
    known = inside & (classes[None, :] < LAST)
    mixed = tl.zeros((BLOCK, CLASSES), tl.float32)
    mixed += tl.load(bias + classes, classes < LAST, 0.0)[None, :]
    for k in tl.static_range(HOPS):
        at = (k * LAST + classes[None, :]).to(tl.int64) * num_nodes + rows[:, None]
        mixed += tl.load(hop_weights + k) * tl.load(logits + at, known, 0.0)
    shares = row_softmax(mixed, (classes <= LAST)[None, :])
    tl.store(
        probs + rows[:, None] * (LAST + 1) + classes[None, :],
        shares,
        inside & (classes <= LAST)[None, :],
    )
    total = tl.sum(tl.where(inside, shares, 0.0), 0)
    tl.store(mass + tl.program_id(0) * (LAST + 1) + classes, total, classes <= LAST)


@triton.jit
def row_softmax(logits, real):
    logits = tl.where(real, logits, float("-inf"))
    powers = tl.exp(logits - tl.max(logits, 1)[:, None])
    return powers / tl.sum(powers, 1)[:, None]


@program
def weighted_sum(
    stack, weights, partial, num_nodes, size, stride, share,
    TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One weighted sum of one tile of the flat hops over one range of nodes."""
    start = tl.program_id(0).to(tl.int64) * share
    stop = tl.minimum(start + share, num_nodes)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((BLOCK, TILE), tl.float32)
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        weight = tl.load(weights + rows * stride, rows < stop, 0.0)
        total += weight[:, None] * flat_hops(stack, rows, columns, stop, size)
    at = partial + tl.program_id(0).to(tl.int64) * size + columns
    tl.store(at, tl.sum(total, 0), columns < size)


@program
def class_sums(
    stack, weights, partial, num_nodes, size, stride, count, share,
    CLASSES: tl.constexpr, REST: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same for some classes: a tile of CLASSES and one of REST, each a power of two or none."""
    start = tl.program_id(0).to(tl.int64) * share
    stop = tl.minimum(start + share, num_nodes)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    classes = tl.program_id(2) * (CLASSES + REST) + tl.arange(0, CLASSES)
    total = tl.zeros((CLASSES, TILE), tl.float32)
    if REST > 0:
        others = tl.program_id(2) * (CLASSES + REST) + CLASSES + tl.arange(0, REST)
        rest = tl.zeros((REST, TILE), tl.float32)
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        hops = flat_hops(stack, rows, columns, stop, size)
        total = added(total, weights, hops, rows, classes, stop, stride, count)
        if REST > 0:
            rest = added(rest, weights, hops, rows, others, stop, stride, count)
    at = partial + tl.program_id(0).to(tl.int64) * count * size + columns[None, :]
    real = (columns < size)[None, :]
    tl.store(at + classes[:, None] * size, total, (classes < count)[:, None] & real)
    if REST > 0:
        tl.store(at + others[:, None] * size, rest, (others < count)[:, None] & real)


@triton.jit
def flat_hops(stack, rows, columns, stop, size):
    inside = (rows < stop)[:, None] & (columns < size)[None, :]
    return tl.load(stack + rows[:, None] * size + columns[None, :], inside, 0.0).to(tl.float32)


@triton.jit
def added(total, weights, hops, rows, classes, stop, stride, count):
    at = rows[None, :] * stride + classes[:, None]
    inside = (rows < stop)[None, :] & (classes < count)[:, None]
    shares = tl.load(weights + at, inside, 0.0)
    return tl.dot(shares, hops, total, input_precision="tf32x3")


@program
def add_up(
    partial, mass, packed, ranges, masses, size, last, TILE: tl.constexpr, BLOCK: tl.constexpr
):
    """One class: partial sums of one tile of columns over all ranges, or mass, in float64.

    The result may be in host memory: sums of all classes and then their mass.
    """
    chosen = tl.program_id(1)
    columns = tl.program_id(0) * TILE + tl.arange(0, TILE)
    known = columns < tl.where(chosen < last, size, 0)
    if tl.program_id(0) * TILE < size:
        total = tl.zeros((BLOCK, TILE), tl.float64)
        for first in range(0, ranges, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            at = (rows.to(tl.int64) * last + chosen)[:, None] * size + columns[None, :]
            inside = (rows < ranges)[:, None] & known[None, :]
            total += tl.load(partial + at, inside, 0.0).to(tl.float64)
        tl.store(packed + chosen * size + columns, tl.sum(total, 0), known)
    else:
        counts = tl.zeros((BLOCK * TILE,), tl.float64)
        for first in range(0, masses, BLOCK * TILE):
            rows = first + tl.arange(0, BLOCK * TILE)
            at = rows.to(tl.int64) * (last + 1) + chosen
            counts += tl.load(mass + at, rows < masses, 0.0).to(tl.float64)
        tl.store(packed + last * size + chosen, tl.sum(counts, 0))


@program
def mix(
    stack, hop_weights, z, num_nodes, num_hops: tl.constexpr, width,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    inside = (rows < num_nodes)[:, None] & (columns < width)[None, :]
    mixed = mixed_rows(stack, hop_weights, rows, columns, inside, num_hops, width)
    tl.store(z + rows[:, None] * width + columns[None, :], mixed, inside)


@triton.jit
def mixed_rows(stack, hop_weights, rows, columns, inside, num_hops: tl.constexpr, width):
    at = stack + rows[:, None] * num_hops * width + columns[None, :]
    mixed = tl.load(hop_weights) * tl.load(at, inside, 0.0).to(tl.float32)
    for k in tl.static_range(1, num_hops):
        mixed += tl.load(hop_weights + k) * tl.load(at + k * width, inside, 0.0).to(tl.float32)
    return mixed


@program
def classify(
    stack, hop_weights, weight, bias, probs, partial, mass, num_nodes, num_hops: tl.constexpr,
    width, num_classes, CLASSES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mix, linear head, softmax, and sums of the mixed by class, over one range of nodes."""
    share = tl.cdiv(num_nodes, tl.num_programs(0)).to(tl.int64)
    start = tl.program_id(0) * share
    stop = tl.minimum(start + share, num_nodes)
    columns, classes = tl.arange(0, WIDTH), tl.arange(0, CLASSES)
    wide, real = columns < width, classes < num_classes
    head = tl.load(
        weight + classes[None, :] * width + columns[:, None], real[None, :] & wide[:, None], 0.0
    )
    offset = tl.load(bias + classes, real, 0.0)[None, :]
    total = tl.zeros((CLASSES, WIDTH), tl.float32)
    counts = tl.zeros((BLOCK, CLASSES), tl.float32)
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        inside = (rows < stop)[:, None]
        mixed = mixed_rows(
            stack, hop_weights, rows, columns, inside & wide[None, :], num_hops, width
        )
        logits = tl.dot(mixed, head, input_precision="tf32x3") + offset
        shares = tl.where(inside, row_softmax(logits, real[None, :]), 0.0)
        at = probs + rows[:, None] * num_classes + classes[None, :]
        tl.store(at, shares, inside & real[None, :])
        counts += shares
        total = tl.dot(tl.trans(shares), mixed, total, input_precision="tf32x3")
    base = tl.program_id(0).to(tl.int64) * num_classes + classes
    tl.store(mass + base, tl.sum(counts, 0), real)
    at = partial + base[:, None] * width + columns[None, :]
    tl.store(at, total, real[:, None] & wide[None, :])


@program
def gram(
    stack, centre, partial, num_nodes, num_hops, width, HOPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Products of centred hops over one range of nodes; (node, feature) pairs are one axis."""
    share = tl.cdiv(num_nodes, tl.num_programs(0)).to(tl.int64)
    start = tl.program_id(0) * share
    size = (tl.minimum(start + share, num_nodes) - start).to(tl.int32) * width
    here, hops = stack + start * num_hops * width, tl.arange(0, HOPS)
    form = tl.zeros((HOPS, HOPS), tl.float32)
    for first in range(0, size, BLOCK):
        # Within the range: divisions of 64-bit numbers would take longer than the read.
        pairs = first + tl.arange(0, BLOCK)
        rows, columns = pairs // width, pairs % width
        inside = (pairs < size)[None, :] & (hops < num_hops)[:, None]
        inner = hops[:, None] * width + columns[None, :]
        hop = tl.load(here + rows[None, :].to(tl.int64) * num_hops * width + inner, inside, 0.0)
        apart = hop.to(tl.float32) - tl.load(centre + inner, inside, 0.0)
        form = tl.dot(apart, tl.trans(apart), form, input_precision="tf32x3")
    at = tl.program_id(0) * HOPS * HOPS + hops[:, None] * HOPS + hops[None, :]
    tl.store(partial + at, form)


@program
def hop_slopes(
    stack, probs, along, partial, num_nodes, num_hops, width, num_classes,
    HOPS: tl.constexpr, CLASSES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Σ_i ⟨Σ_c Y_ic a_c, H_k[i]⟩ over one range of nodes, for all hops side by side."""
    share = tl.cdiv(num_nodes, tl.num_programs(0)).to(tl.int64)
    start = tl.program_id(0) * share
    stop = tl.minimum(start + share, num_nodes)
    columns, classes, hops = tl.arange(0, WIDTH), tl.arange(0, CLASSES), tl.arange(0, HOPS)
    wide, real = columns < width, classes < num_classes
    means = tl.load(
        along + classes[:, None] * width + columns[None, :], real[:, None] & wide[None, :], 0.0
    )
    products = tl.zeros((HOPS, BLOCK, WIDTH), tl.float32)
    inner = hops[:, None, None] * width + columns[None, None, :]
    known = (hops < num_hops)[:, None, None] & wide[None, None, :]
    for first in range(start, stop, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        inside = rows < stop
        at = probs + rows[:, None] * num_classes + classes[None, :]
        shares = tl.load(at, inside[:, None] & real[None, :], 0.0)
        there = stack + rows[None, :, None] * num_hops * width + inner
        hop = tl.load(there, known & inside[None, :, None], 0.0).to(tl.float32)
        slope = tl.dot(shares, means, input_precision="tf32x3")
        products += slope[None, :, :] * hop
    dots = tl.sum(tl.sum(products, 2), 1)
    tl.store(partial + tl.program_id(0) * num_hops + hops, dots, hops < num_hops)


@program
def product(
    crow, col, values, h, share, base, out, num_nodes, width, h_stride, base_stride, out_stride,
    PLUS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some rows of a sparse product, with PLUS and a share of the same rows of `base`.

    Rows side by side, one neighbour of each at a time.
    """
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    wide = (columns < width)[None, :]
    first, start, degree = edges_of(crow, rows, num_nodes, BLOCK)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for step in range(tl.max(degree, 0)):
        there = step < degree
        sender = tl.load(col + first + (start + step), there, 0).to(tl.int64)
        weight = tl.load(values + first + (start + step), there, 0.0)
        at = h + sender[:, None] * h_stride + columns[None, :]
        total += weight[:, None] * tl.load(at, there[:, None] & wide, 0.0).to(tl.float32)
    inside = (rows < num_nodes)[:, None] & wide
    if PLUS:
        at = base + rows[:, None] * base_stride + columns[None, :]
        total += share * tl.load(at, inside, 0.0)
    tl.store(out + rows[:, None] * out_stride + columns[None, :], total, inside)


@triton.jit
def edges_of(crow, rows, num_nodes, BLOCK: tl.constexpr):
    """Where the edges of a block of rows start: the first of all, the others from it on, degrees.

    The others are 32-bit numbers: with 64-bit positions in every row Triton 3.6 does not compile.
    """
    real = rows < num_nodes
    first = tl.load(crow + tl.program_id(0).to(tl.int64) * BLOCK)
    start = tl.load(crow + rows, real, 0)
    degree = (tl.load(crow + rows + 1, real, 0) - start).to(tl.int32)
    return first.to(tl.int64), (start - first).to(tl.int32), degree


@program
def message_sums(
    crow, senders, lift, sent, received, sums, num_nodes, num_classes,
    CLASSES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Belief messages to some rows, one neighbour of each at a time, in the precision of `sent`."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    classes = tl.arange(0, CLASSES)
    exists, real = rows < num_nodes, (classes < num_classes)[None, :]
    at = rows[:, None] * num_classes + classes[None, :]
    back = tl.load(received + at, exists[:, None] & real, 0.0)
    pairs = (classes < num_classes)[:, None] & real
    lifts = tl.load(lift + classes[:, None] * num_classes + classes[None, :], pairs, 0.0)
    first, start, degree = edges_of(crow, rows, num_nodes, BLOCK)
    total = tl.zeros_like(back)
    for step in range(tl.max(degree, 0)):
        there = step < degree
        sender = tl.load(senders + first + (start + step), there, 0).to(tl.int64)
        inside = there[:, None] & real
        belief = tl.load(sent + sender[:, None] * num_classes + classes[None, :], inside, 0.0)
        shares = row_softmax(belief - back, real)
        lifted = tl.sum(shares[:, None, :] * lifts[None, :, :], 2)
        logs = tl.where(real, tl.log(tl.maximum(lifted, 1e-12)), 0.0)
        centred = logs - (tl.sum(logs, 1) / num_classes)[:, None]
        total += tl.where(inside, centred, 0.0)
    tl.store(sums + at, total, exists[:, None] & real)
