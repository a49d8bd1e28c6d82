"""A run that is the same every time and leaves the process as it found it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from transformers.utils import logging

# What transformers' `full_determinism` sets.
_VARIABLES = (
    "ASCEND_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "FLASH_ATTENTION_DETERMINISTIC",
    "HCCL_DETERMINISTIC",
)


@contextmanager
def globals_restored() -> Iterator[None]:
    """Put back, at the end of the block, what a training run changes for the whole process.

    That is the random numbers of Python, NumPy and torch, torch's deterministic algorithms, and how much
    transformers says.
    """
    state, numpy_state, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
        if cuda_states:
            torch.cuda.set_rng_state_all(cuda_states)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
