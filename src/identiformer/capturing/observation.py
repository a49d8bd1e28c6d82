"""Attention that a model computes by itself, beside the attention interface: recognised in what torch is asked to do.

A model that does so multiplies queries by keys, scales, adds and masks, takes the softmax and multiplies by values; or
it calls torch's `scaled_dot_product_attention`. Every operation of the forward pass is seen here, and what is known of
its tensors is kept beside them:

- *logits*: that a tensor is affine in a query ([`Logits`][identiformer.capturing.traced.Logits]), from the product of
  two tensors on, through operations that keep it so;
- *weights*: that it is the softmax of such logits, until it is multiplied by values;
- *roots*: which linear layers it was computed from. A term that is added to the logits and has a root in common with
  the query may move with the query, and is no bias.

An operation of which nothing is known here loses the logits, and the layer is refused with its name: never is a
tensor taken for what it is not.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from identiformer.capturing.call import AttentionCall
from identiformer.capturing.interface import Watcher
from identiformer.capturing.traced import Logits, Lost, ended, hides, number

_SHAPES = {
    "view",
    "reshape",
    "contiguous",
    "clone",
    "to",
    "float",
    "double",
    "half",
    "bfloat16",
    "type",
    "type_as",
}
_SHAPES |= {"unflatten", "flatten", "dropout", "detach", "squeeze", "unsqueeze"}
_SUMS = {"add": 1.0, "radd": 1.0, "iadd": 1.0, "sub": -1.0, "isub": -1.0}
_MULTIPLES = {"mul", "rmul", "imul", "multiply"}
_QUOTIENTS = {"div", "truediv", "itruediv", "divide", "true_divide"}
_LINEAR = {"linear", "addmm"}
_PRODUCTS = {"matmul", "bmm", "baddbmm"}


Value = TypeVar("Value")


class Observation(TorchFunctionMode):
    """Watches the operations of this thread, and shows each call of attention to a watcher.

    Args:
        watcher: Who is shown the calls.
        texts: How many texts are computed at once.
    """

    def __init__(self, watcher: Watcher, texts: int):
        super().__init__()
        self._watcher = watcher
        self._texts = texts
        self._known: _Beside[_Known] = _Beside()
        self._roots: _Beside[frozenset[int]] = _Beside()
        self._root = itertools.count()

    def __torch_function__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Do what is asked, and note what is known of the result."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        given = _Given(name, args, kwargs, self._known)
        roots: frozenset[int] = frozenset().union(
            *(self._roots.get(tensor) or () for tensor in given.tensors)
        )
        result = func(*args, **kwargs)
        if name in _LINEAR:
            roots = frozenset((next(self._root),))
        known: _Known | None = None
        if isinstance(result, Tensor):
            known = self._follow(given, result)
        elif given.known and name not in _LINEAR:
            known = Lost(name)
        for tensor in _tensors(result):
            self._roots.put(tensor, roots or None)
            self._known.put(tensor, known)
        return result

    def _follow(self, given: _Given, result: Tensor) -> _Known | None:
        """What is known of the result of an operation."""
        name, args, kwargs = given.name, given.args, given.kwargs
        if name == "scaled_dot_product_attention":
            self._watcher.attention(_fused(result, *args, **kwargs))
            return None
        if name in _LINEAR or name.endswith("like"):
            return None
        if name.endswith("_as") and given.first is None:
            return None  # of what is known only the shape is used
        if name in _PRODUCTS:
            return self._product(given, result)
        if not given.known:
            return None
        shape = result.shape
        for known in given.known:
            if isinstance(known, Weights):
                logits = known.logits
                if known is not given.first or name not in _SHAPES:
                    return Weights(Lost(f"{name} of the weights"))
                return Weights(logits.reshaped(shape) if isinstance(logits, Logits) else logits)
        if name == "softmax":
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            logits = given.first
            if isinstance(logits, (Logits, Lost)) and dim in (-1, result.ndim - 1):
                return Weights(logits)
            return Weights(Lost("the softmax is not one over tokens"))
        if name in _SUMS and len(args) == 2 and kwargs.get("alpha", 1) == 1:
            return self._sum(given, shape)
        known, *others = given.known
        if others or not isinstance(known, Logits):
            return known if isinstance(known, Lost) else Lost(name)
        return _continued(known, given, shape)

    def _product(self, given: _Given, result: Tensor) -> _Known | None:
        """Of a product of two tensors: logits; or the end of attention, where the first one is its weights."""
        name, args, kwargs = given.name, given.args, given.kwargs
        one, other = args[-2:] if len(args) > 1 else (kwargs.get("batch1"), kwargs.get("batch2"))
        if not isinstance(one, Tensor) or not isinstance(other, Tensor) or min(one.ndim, other.ndim) < 3:
            return None
        weights = self._known.get(one)
        if isinstance(weights, Weights):
            self._watcher.attention(ended(weights.logits, other, result, self._texts))
            return None
        shape = result.shape
        if name != "baddbmm":
            return Logits.product(one, other, shape)
        logits = Logits.product(one, other, shape, float(kwargs.get("alpha", 1)))
        beta = float(kwargs.get("beta", 1))
        return self._with_term(logits, given.tensors[0], beta, shape) if beta else logits

    def _sum(self, given: _Given, shape: torch.Size) -> _Known:
        """Of a sum of which one part, or both, are logits or made of such."""
        one, other = given.args
        left, right = (self._known.get(part) if isinstance(part, Tensor) else None for part in (one, other))
        factor = _SUMS[given.name]
        if isinstance(left, Logits):
            if number(other) is not None:
                return left  # the same for all tokens: the softmax does not see it
            if isinstance(right, Logits) and _same_memory(left.query, right.query):
                same = left.shape == right.shape == shape
                return left.joined(right, factor) if same else Lost("they are added to something larger")
            return self._with_term(left, other, factor, shape)
        if isinstance(right, Logits):
            return (
                right.scaled(factor)
                if number(one) is not None
                else (self._with_term(right.scaled(factor), one, 1.0, shape))
            )
        return given.known[0]

    def _with_term(self, logits: Logits, term: Tensor, factor: float, shape: torch.Size) -> Logits | Lost:
        mine, its = self._roots.get(logits.query) or frozenset(), self._roots.get(term) or frozenset()
        if mine & its and term.shape[-1] > 1:
            return Lost("something is added that was itself computed from the query")
        return logits.plus(term, factor, shape)


@dataclass(frozen=True, eq=False)
class Weights:
    """The softmax of logits."""

    logits: Logits | Lost


_Known = Logits | Lost | Weights


class _Given:
    """What an operation is given."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], known: _Beside[_Known]):
        self.name, self.args, self.kwargs = name, args, kwargs
        self.tensors = list(_tensors((args, tuple(kwargs.values()))))
        of_tensors = [known.get(tensor) for tensor in self.tensors]
        self.known = [it for it in of_tensors if it is not None]
        self.first = of_tensors[0] if of_tensors and args and self.tensors[0] is args[0] else None


def _continued(logits: Logits, given: _Given, shape: torch.Size) -> Logits | Lost:
    """Logits after an operation with nothing else that is known."""
    name, args, kwargs = given.name, given.args, given.kwargs
    first = given.first is logits
    if (name in _MULTIPLES or (name in _QUOTIENTS and first)) and len(args) == 2:
        factor = number(args[1] if first else args[0])
        if factor:
            return logits.scaled(factor if name in _MULTIPLES else 1 / factor)
    if first and name in _SHAPES:
        return logits.reshaped(shape)
    if first and name == "masked_fill" and len(args) == 3 and hides(args[2]) and shape == logits.shape:
        return logits.hiding(~args[1].bool())
    if first and name == "gather":
        dim, index = (*args[1:], *(kwargs[key] for key in ("dim", "index") if key in kwargs))[:2]
        if dim in (-1, len(shape) - 1):
            return logits.gathered(index)
    if name == "where" and len(args) == 3 and shape == logits.shape:
        condition, one, other = args
        if given.tensors[1:] and given.tensors[1] is one and hides(other):
            return logits.hiding(condition)
        if given.tensors[-1] is other and hides(one):
            return logits.hiding(~condition)
    return Lost(name)


def _fused(
    mixed: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionCall:
    """A call of torch's own attention, with its signature."""
    if is_causal:
        attn_mask = query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    query, key, value, mixed = (
        tensor[:, None] if tensor.ndim == 3 else tensor for tensor in (query, key, value, mixed)
    )
    return AttentionCall(
        module=None,
        query=query,
        key=key,
        value=value,
        added=() if attn_mask is None else (attn_mask,),
        scaling=query.shape[-1] ** -0.5 if scale is None else scale,
        mixed=mixed.transpose(1, 2),
    )


class _Beside(Generic[Value]):
    """Values beside tensors, for as long as those live."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[Tensor], Value]] = {}

    def get(self, tensor: Tensor) -> Value | None:
        reference, value = self._values.get(id(tensor), (None, None))
        return value if reference is not None and reference() is tensor else None

    def put(self, tensor: Tensor, value: Value | None) -> None:
        key = id(tensor)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = (weakref.ref(tensor, lambda _: self._values.pop(key, None)), value)


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for branch in tree:
            yield from _tensors(branch)


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.data_ptr() == other.data_ptr() and one.stride() == other.stride())
