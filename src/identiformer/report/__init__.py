"""Pages that show explanations: whole HTML documents that need nothing but themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer.report.explanation_report import explanation_page

# Imported when first used: what draws figures takes its time.
_MODULES = {"explanation_page": "explanation_report"}

__all__ = ["explanation_page"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
