"""A hub that does not answer is asked once: its client would try again for half a minute, file by file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hub_or_cache() -> Iterator[None]:
    """In this block nothing is fetched if the hub does not answer now; what is in the local cache is still found."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or _answers():
        yield
        return
    # Has a switch of its own, which would take over the hub's if it were imported in the block.
    import datasets.config

    before = datasets.config.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = False, before


def _answers() -> bool:
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # of whichever client it is built on: no such host, no way to it, no answer in time
        return False
    return True
