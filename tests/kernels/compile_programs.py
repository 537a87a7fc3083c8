"""Compile every GPU program for sm_80 and sm_90, in each signature that the code can start.

It needs no GPU: Triton's wheel has the assembler. What the host would start is recorded on tensors
of the CPU, and compiled by Triton's own rules for arguments. Prints one line for each program.

Run: python tests/kernels/compile_programs.py
"""

import hashlib
import itertools
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch import nn
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from matcha_gnn.kernels import Adjacency, gpu, gpu_programs, reference
from matcha_gnn.kernels.links import Links

SHARED = {80: 166_912, 90: 232_448}
"""Bytes of a processor's shared memory that one program may take."""
WIDTHS = (1, 2, 3, 7, 8, 16, 31, 33, 64, 100, 128, 129, 256, 300)
NAMES = [
    *("softmax", "weighted_sum", "class_sums", "add_up", "mix", "classify", "gram", "hop_slopes"),
    *("product", "message_sums"),
]
starts: dict[str, tuple[str, dict[str, Any]]] = {}


class Recorder:
    """Stands in for a program: keeps what would be compiled, and computes nothing."""

    def __init__(self, name: str) -> None:
        self.name, self.program = name, getattr(gpu_programs, name)

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert min(grid) > 0, (self.name, grid)
        return self.start

    def start(self, *args: Any, **kwargs: Any) -> None:
        program: JITFunction[Any] = self.program
        backend = make_backend(GPUTarget("cuda", 90, 32))
        bind = create_function_from_signature(program.signature, program.params, backend)
        bound, kinds, options = bind(*args, **kwargs)
        _, signature, constants, attributes = program._pack_args(
            backend, options, bound, kinds, options
        )
        what = {
            "signature": signature,
            "constants": [[list(path), value] for path, value in constants.items()],
            "attributes": [[list(path), value] for path, value in attributes.items()],
            "options": {k: v for k, v in options.items() if k in ("num_warps", "num_stages")},
        }
        key = hashlib.sha256(json.dumps([self.name, what], sort_keys=True).encode()).hexdigest()
        starts[key] = (self.name, what)


def compile_one(name: str, what: dict[str, Any], arch: int) -> str | None:
    """Why a program does not compile for one kind of GPU; None where it does."""
    source = ASTSource(
        fn=getattr(gpu_programs, name),
        signature=what["signature"],
        constexprs={tuple(path): value for path, value in what["constants"]},
        attrs={tuple(path): value for path, value in what["attributes"]},
    )
    try:
        compiled = triton.compile(
            source, target=GPUTarget("cuda", arch, 32), options=what["options"] or None
        )
    except Exception as error:
        return f"{name}, sm_{arch}, {what}: {type(error).__name__}: {error}"
    shared = compiled.metadata.shared
    if shared > SHARED[arch]:
        return f"{name}, sm_{arch}, {what}: {shared} bytes of shared memory; at most {SHARED[arch]}"
    return None


def record_products() -> None:
    edges = torch.randint(0, 400, (2, 3000))
    matrix = Adjacency.normalised(edges, 400, None, torch.float32).matrix
    parts = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    narrow = torch.sparse_csr_tensor(parts[0].int(), parts[1].int(), parts[2], matrix.shape)
    for width, positions in itertools.product(WIDTHS, (matrix, narrow)):
        h, base, out = torch.randn(3, 400, width)
        gpu.product(positions, h, out, 0.5, base)
        # A view of half of a tensor: its first number need not lie at a multiple of 16 bytes.
        gpu.product(positions, torch.randn(400, width + 1)[:, 1:], out)
        for hops in (2, 10):
            stack = torch.randn(400, hops, width)
            gpu.product(positions, stack[:, 0], stack[:, 1])
    links = Links.of(edges, 400)
    for classes, positions in itertools.product(range(2, gpu.MAX_MESSAGE + 1), ("int", "long")):
        crow, sender = (getattr(each, positions)() for each in (links.crow, links.sender))
        for dtype in (torch.float32, torch.float64):
            sent, received = torch.randn(2, 400, classes, dtype=dtype)
            gpu.message_sums(crow, sender, torch.eye(classes, dtype=dtype), sent, received)


def record_rounds() -> None:
    shapes = [(10, width, classes) for width in WIDTHS for classes in (2, 5)]
    shapes += [(10, 2, classes) for classes in (3, 4, 7, 16, 17, 31, 33, 40, 41, 64, 65, 100)]
    shapes += [(hops, width, 5) for hops in (1, 2, 3, 5, 16, 17) for width in (2, 64, 128)]
    for (hops, width, classes), nodes in itertools.product(shapes, (1, 400)):
        stack = torch.randn(nodes, hops, width)
        head = nn.Linear(width, classes).requires_grad_(False)
        hop_weights, sums = torch.rand(hops), reference.node_sums(stack)
        logits = reference.hop_logits(stack, head.weight)
        gpu.Classifier(stack, logits, head.bias[:-1] - head.bias[-1], sums)(hop_weights)
        gpu.mix(stack, hop_weights)
        gpu.class_sums(stack, torch.rand(nodes, classes))
        gpu.gram(stack, sums / nodes)
        if gpu.fits(stack, classes):
            gpu.classify(stack, hop_weights, head)
            gpu.hop_slopes(stack, torch.rand(nodes, classes), torch.rand(classes, width).numpy())


def main() -> None:
    gpu.on_gpu = SimpleNamespace(**{name: Recorder(name) for name in NAMES})
    started = {
        name
        for name, each in vars(gpu_programs).items()
        if isinstance(each, JITFunction) and each.do_not_specialize
    }
    assert started == set(NAMES), "a program that the host starts is not compiled here"
    record_products()
    record_rounds()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        cases = [(*each, arch) for each in starts.values() for arch in SHARED]
        failures = [
            each for each in pool.map(compile_one, *zip(*cases, strict=True), chunksize=8) if each
        ]
    for name in NAMES:
        print(f"{name}: {sum(case[0] == name for case in cases)} compiled")
    print("\n".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
