"""Makes identiformer known to the Auto classes of transformers, without importing transformers.

`import identiformer` must stay cheap, since the command line starts with it, and transformers takes seconds to
import. So the Auto classes learn of identiformer's configurations right after the module that holds them is imported,
by whomever; at once where it was imported before. That can be in the midst of importing transformers, when no model
can be defined yet: models are registered when the first configuration is made that asks for one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_AUTO_CONFIG = "transformers.models.auto.configuration_auto"
# The modules of ours that register themselves with it.
_OURS = ("identiformer.model.configuration", "identiformer.retrofitting.deferred")


class _ThenRegister(Loader):
    """A module's own loader, and the registration after it."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _import_ours()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # get_source and the like, for tracebacks and inspect


class _AutoConfig(MetaPathFinder):
    """Finds the module of `AutoConfig`, and leaves every other one to the finders after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _AUTO_CONFIG:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader)
        return spec


def register() -> None:
    """Make identiformer known to the Auto classes, now or as soon as they are imported."""
    if not any(isinstance(finder, _AutoConfig) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AutoConfig())
    if _AUTO_CONFIG in sys.modules:
        _import_ours()


def _import_ours() -> None:
    for name in _OURS:
        import_module(name)
