"""The attention interface of transformers: where most models compute attention, and where it can be watched.

A model that goes through the interface asks it for a function by the name in its configuration, and the mask
interface for a mask by the same name. Both are registered here. Without the second the model would be given no mask
at all, and would attend to padding in silence.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

from identiformer.capturing.call import AttentionCall
from identiformer.capturing.loan import former_implementation
from identiformer.errors import InputError

IMPLEMENTATION = "identiformer_capture"

# Tokens chosen by their numbers, which only attention kernels read; models give these names to no one else.
_SPARSE = ("indices", "block_indices")

Attention = Callable[..., tuple[Tensor, Tensor | None]]


class Watcher(Protocol):
    """Who is shown every call of attention in a forward pass."""

    def attention(self, call: AttentionCall) -> None:
        """A call, after it was computed."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Show the calls of this thread to `watcher`; those of other threads, with the same model even, are not."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def watching() -> Watcher | None:
    """Who is shown the calls of this thread."""
    return _watcher.get()


def reaches(model: PreTrainedModel) -> bool:
    """Whether all attention of the model goes through the interface, as far as transformers can tell."""
    return all(
        module._can_set_attn_implementation()
        if isinstance(module, PreTrainedModel)
        else not _computes_itself(type(module))
        for module in model.modules()
    )


@lru_cache(maxsize=256)
def _computes_itself(kind: type[nn.Module]) -> bool:
    """Whether attention is written out in a class, beside others of the same model that go through the interface."""
    names = _names(kind.forward) if "Attention" in kind.__name__ else ()
    return "softmax" in names and "get_interface" not in names


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention as the model would have computed it, shown to the watcher: the AttentionInterface's signature."""
    if any(kwargs.get(name) is not None for name in _SPARSE):
        raise InputError(
            f"attention of {type(module).__name__} cannot be captured: it names the tokens that it attends to in a "
            "way that only its own kernels read"
        )
    if attention_mask is None and _causal_without_mask(module, query, key, kwargs):
        attention_mask = query.new_ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()[None, None]
    kwargs["dropout"] = 0.0
    mixed, _ = _compute(module)(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    watcher = watching()
    if watcher is not None:
        watcher.attention(
            AttentionCall(
                module=module,
                query=query,
                key=key,
                value=value,
                added=tuple(
                    added for added in (attention_mask, kwargs.get("position_bias")) if added is not None
                ),
                scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
                mixed=mixed,
                softcap=kwargs.get("softcap"),
                sinks=kwargs.get("s_aux"),
            )
        )
    return mixed, None


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """The mask of the former implementation, always made.

    Unless asked not to, transformers leaves out a mask where an implementation knows how to do without.
    """
    kwargs |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    former = former_implementation(kwargs.get("config"))
    return sdpa_mask(*args, **kwargs) if former == "sdpa" else eager_mask(*args, **kwargs)


def _causal_without_mask(module: nn.Module, query: Tensor, key: Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether `sdpa` hides later tokens of itself, as it does where a module gives no mask and does not forbid it."""
    causal = kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    return bool(causal) and 1 < query.shape[2] == key.shape[2] and _compute(module) is sdpa_attention_forward


def _compute(module: nn.Module) -> Attention:
    """What computes the attention of a module: `sdpa` if it did before, or else the model's own eager function.

    The latter has what is peculiar to the model. Fast kernels take other masks; they compute the same.
    """
    if former_implementation(getattr(module, "config", None)) == "sdpa":
        return sdpa_attention_forward
    return _eager(type(module)) or sdpa_attention_forward


@lru_cache(maxsize=256)
def _eager(kind: type[nn.Module]) -> Attention | None:
    """The function that a class falls back on where its implementation is `eager`, if it has one."""
    for ancestor in kind.__mro__:
        forward: Any = ancestor.__dict__.get("forward")
        for name in _names(forward):
            function = inspect.unwrap(forward).__globals__.get(name) if "eager_attention" in name else None
            if callable(function):
                return cast(Attention, function)
        function = getattr(sys.modules.get(ancestor.__module__), "eager_attention_forward", None)
        if callable(function):
            return cast(Attention, function)
    return None


def _names(function: Any) -> tuple[str, ...]:
    """What the code of a function names of others, in the order of their first use; nothing where it has no code."""
    return getattr(getattr(inspect.unwrap(function), "__code__", None), "co_names", ()) if function else ()


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, _mask)
