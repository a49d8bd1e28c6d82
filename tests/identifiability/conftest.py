"""What the tests of the maths share."""

import pytest
import torch
from jaxtyping import config


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny matrices: threads cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def unhooked():
    """What users see: their errors come from the package, not from the hook."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
