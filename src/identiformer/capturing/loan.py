"""A model set up for capture, and given back as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

_IMPLEMENTATION = "_attn_implementation_internal"


@dataclass
class _Held:
    """An attribute that was changed.

    Args:
        owner: Whose it is; kept alive, and its id with it.
        former: What it was.
        captures: How many captures hold it: several of one model, or of models that share parts.
    """

    owner: object
    former: Any
    captures: int = 0


_lock = threading.Lock()
_held: dict[tuple[int, str], _Held] = {}


@contextmanager
def on_loan(model: PreTrainedModel, implementation: str | None) -> Iterator[None]:
    """Set a model up for capture; when the last capture of it ends, in whatever way, it is as it was before.

    Its attention goes to `implementation`, if one is given, wherever it goes through the attention interface; it is
    in evaluation mode, without dropout; and it keeps no keys and values of layers past.
    """
    with ExitStack() as stack:
        for module in model.modules():
            _hold(stack, module, "training", False)
        for config in _configs(model):
            # Not `set_attn_implementation`, which writes to the log and does not restore each of several.
            if implementation is not None:
                _hold(stack, config, _IMPLEMENTATION, implementation)
            if hasattr(config, "use_cache"):
                _hold(stack, config, "use_cache", False)
        yield


def former_implementation(config: Any) -> str:
    """The attention implementation that a configuration of a model on loan had before, by its name."""
    held = _held.get((id(config), _IMPLEMENTATION))
    return held.former if held is not None and held.former else "eager"


def _hold(stack: ExitStack, owner: nn.Module | PreTrainedConfig, name: str, value: Any) -> None:
    """Set an attribute, until `stack` is left and no other capture holds it."""
    key = (id(owner), name)
    with _lock:
        held = _held.get(key)
        if held is None:
            if getattr(owner, name) == value:
                return
            held = _held[key] = _Held(owner, getattr(owner, name))
            setattr(owner, name, value)
        held.captures += 1
        stack.callback(_release, key)


def _release(key: tuple[int, str]) -> None:
    with _lock:
        held = _held[key]
        held.captures -= 1
        if not held.captures:
            setattr(held.owner, key[1], held.former)
            del _held[key]


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
