"""Shapes and types of every call are checked while these tests run."""

import sys

import pytest
import torch
from jaxtyping import config, install_import_hook

# Only a module that is imported after the hook gets its checks.
if "identiformer.identifiability" not in sys.modules:
    install_import_hook("identiformer.identifiability", "beartype.beartype")


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
