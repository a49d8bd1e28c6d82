"""Makes identiformer known to the Auto classes of transformers, without importing transformers.

`import identiformer` must stay cheap, since the command line starts with it, and transformers takes seconds to
import. So the Auto classes learn of identiformer right after the modules that hold them are imported, by whomever;
at once where they were imported before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# A module of transformers, and the module of ours that registers itself with the Auto classes in it.
_REGISTERS = {
    "transformers.models.auto.configuration_auto": "identiformer.model.configuration",
    "transformers.models.auto.modeling_auto": "identiformer.model.classifier",
}


class _ThenImport(Loader):
    """A module's own loader, and the import of another module after it."""

    def __init__(self, loader: Loader, after: str):
        self._loader, self._after = loader, after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        import_module(self._after)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # get_source and the like, for tracebacks and inspect


class _AutoClasses(MetaPathFinder):
    """Finds the two modules of the Auto classes, and leaves every other one to the finders after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _REGISTERS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenImport(spec.loader, _REGISTERS[fullname])
        return spec


def register() -> None:
    """Make identiformer known to the Auto classes, now or as soon as they are imported."""
    if not any(isinstance(finder, _AutoClasses) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AutoClasses())
    for theirs, ours in _REGISTERS.items():
        if theirs in sys.modules:
            import_module(ours)
