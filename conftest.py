"""Doctests import every module; those of the GPU kernels need triton."""

from importlib.util import find_spec

GPU = ["src/matcha_gnn/kernels/gpu.py", "src/matcha_gnn/kernels/gpu_programs.py"]
collect_ignore = [] if find_spec("triton") else GPU
