"""Pages that show explanations: whole HTML documents that need nothing but themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer.report.audit_overview import audit_page
    from identiformer.report.explanation_report import explanation_page
    from identiformer.report.training_overview import training_page

# Imported when first used: what draws figures takes its time.
_MODULES = {
    "audit_page": "audit_overview",
    "explanation_page": "explanation_report",
    "training_page": "training_overview",
}

__all__ = ["audit_page", "explanation_page", "training_page"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
