"""Pretrained encoders whose values are made to carry their keys, so that their attention is identifiable.

Names are imported when first used: the Auto classes import this package while transformers itself is being imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer.retrofitting.carrying import retrofit
    from identiformer.retrofitting.folder import retrofit_folder
    from identiformer.retrofitting.report import Drift, HeadMargins, RetrofitReport

__all__ = ["Drift", "HeadMargins", "RetrofitReport", "retrofit", "retrofit_folder"]

_MODULES = {
    "Drift": "report",
    "HeadMargins": "report",
    "RetrofitReport": "report",
    "retrofit": "carrying",
    "retrofit_folder": "folder",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
