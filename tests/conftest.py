"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Shapes and types of every call into the maths are checked while tests run; only modules imported later are.
install_import_hook("identiformer.identifiability", "beartype.beartype")

# Nothing is fetched in a test; said before any library reads it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
# Of the processes that tests start, too: threads cost more than they bring to what is this small.
os.environ["OMP_NUM_THREADS"] = "1"
# The width of somebody's terminal, to which tables would be fitted; pytest-xdist sets it.
os.environ.pop("COLUMNS", None)

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with golden cases and real data that lies beside the project."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the folder {SHARED.name} beside the project")
    return SHARED
