"""A model set up for capture, and given back as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

_lock = threading.Lock()
# What is on loan: models by their id, and the implementation that each configuration had, by its id.
_loans: dict[int, _Loan] = {}
_implementations: dict[int, str | None] = {}


@contextmanager
def on_loan(model: PreTrainedModel, implementation: str | None) -> Iterator[None]:
    """Set a model up for capture; when the last capture of it ends, in whatever way, it is as it was before.

    Its attention goes to `implementation`, if one is given, wherever it goes through the attention interface; it is
    in evaluation mode, without dropout; and it keeps no keys and values of layers past.
    """
    with _lock:
        loan = _loans.get(id(model))
        if loan is None:
            loan = _loans[id(model)] = _Loan(model, implementation)
        loan.captures += 1
    try:
        yield
    finally:
        with _lock:
            loan.captures -= 1
            if not loan.captures:
                loan.give_back()
                del _loans[id(model)]


def former_implementation(config: Any) -> str:
    """The attention implementation that a configuration of a model on loan had before, by its name."""
    return _implementations.get(id(config)) or "eager"


class _Loan:
    """What was changed of a model."""

    def __init__(self, model: PreTrainedModel, implementation: str | None):
        self.captures = 0
        self.model = model  # kept alive, and its id with it
        self._training = [module for module in model.modules() if module.training]
        self._changed: list[tuple[PreTrainedConfig, str, Any]] = []
        try:
            for module in self._training:
                module.training = False
            for config in _configs(model):
                # Not `set_attn_implementation`, which writes to the log and does not restore each of several.
                if implementation is not None:
                    _implementations[id(config)] = config._attn_implementation
                    self._change(config, "_attn_implementation_internal", implementation)
                if getattr(config, "use_cache", False):
                    self._change(config, "use_cache", False)
        except BaseException:
            self.give_back()
            raise

    def _change(self, config: PreTrainedConfig, name: str, value: Any) -> None:
        self._changed.append((config, name, getattr(config, name)))
        setattr(config, name, value)

    def give_back(self) -> None:
        for config, name, value in self._changed:
            setattr(config, name, value)
            _implementations.pop(id(config), None)
        for module in self._training:
            module.training = True


def _configs(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """Every configuration that a module of the model reads, once."""
    found: dict[int, PreTrainedConfig] = {}
    waiting = [
        config for module in model.modules() if (config := getattr(module, "config", None)) is not None
    ]
    while waiting:
        config = waiting.pop()
        if isinstance(config, PreTrainedConfig) and id(config) not in found:
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())
