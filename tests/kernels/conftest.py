"""Kernels run on the CPU here, through Triton's interpreter; it must be chosen before Triton is imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
