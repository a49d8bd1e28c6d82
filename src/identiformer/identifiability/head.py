"""One attention head as seen from its query rows: the object that everything else here asks about."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.gram import row_factor
from identiformer.identifiability.linalg import broadcast

# How many dimensions of each tensor come after the batch.
_OWN_DIMENSIONS = {
    "weights": 1,
    "keys": 2,
    "values": 2,
    "output_projection": 2,
    "visible": 1,
    "bias": 1,
}
# Twice the square of this is finite in float64: singular values of products of two such tensors exist.
_LARGEST = 1e75
_Index = int | slice | EllipsisType | Tensor


@dataclass(frozen=True, eq=False)
class AttentionHead:
    r"""What one attention head did for one query row, or for a batch of heads and rows.

    A row with weights $a$ over $n$ tokens, keys $K$ and values $V$ adds to the output of its layer

    $$h = a T, \qquad T = V D,$$

    where $D$ is the head's slice of the output projection. The question of this package is which other $a$
    would have given the same $h$.

    Every tensor may have any number of leading batch dimensions (texts, heads, rows, in any order). They
    broadcast: keys of shape `[12, 1, n, d_k]` serve all rows of `weights [12, rows, n]`, and what does not
    depend on the row is then computed once a head.

    Tokens that are not visible may hold anything, NaN included: they are set to zero here. All arithmetic is
    done in float64; `dtype` remembers in which precision the model computed, which decides what counts as
    zero.

    **Arguments:**

    - `weights`: `[*batch, n]`, $a$: after the softmax, before any dropout.
    - `keys`: `[*batch, n, d_k]`, $K$: as they enter the dot product (after rotary embedding, where there is
      one).
    - `values`: `[*batch, n, d_v]`, $V$: bias included.
    - `output_projection`: `[*batch, d_v, d_e]`, $D$. `None` stands for the identity.
    - `visible`: `[*batch, n]`, the tokens that the mask lets the row see, never padding. `None`: all of them.
    - `bias`: `[*batch, n]`, what the head adds to its logits. `None`: nothing.
    - `scaling`: by what the head multiplies its dot products: a number, or a tensor that broadcasts to
      `[*batch]`.
    - `dtype`: the floating-point type in which the model computed. By default that of `weights`.

    **Raises:** [`InputError`][] (a `ValueError`) where shapes do not fit together (it names both), where what
    is visible holds NaN or infinity (it names the tensor), where a row sees no token, or where its weights
    are negative or do not sum to 1.
    """

    weights: Float[Tensor, "*batch n"]
    keys: Float[Tensor, "*#batch n d_k"]
    values: Float[Tensor, "*#batch n d_v"]
    output_projection: Float[Tensor, "*#batch d_v d_e"] | None = None
    visible: Bool[Tensor, "*#batch n"] | None = None
    bias: Float[Tensor, "*#batch n"] | None = None
    scaling: float | Float[Tensor, "*#batch"] = 1.0
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        given = {name: tensor for name in _OWN_DIMENSIONS if (tensor := getattr(self, name)) is not None}
        _check_types(given)
        if self.dtype is None:
            object.__setattr__(self, "dtype", self.weights.dtype)
        if not isinstance(self.dtype, torch.dtype) or not self.dtype.is_floating_point:
            raise InputError(f"dtype must be a floating-point torch.dtype, not {self.dtype!r}")
        batch = _check_shapes(given, self.scaling)
        given["weights"] = self.weights.expand(*batch, self.weights.shape[-1])
        for name, tensor in given.items():
            compact = (
                tensor.detach() if name == "weights" else _compact(tensor.detach(), _OWN_DIMENSIONS[name])
            )
            object.__setattr__(self, name, compact if name == "visible" else compact.to(torch.float64))
        _check_finite("scaling", torch.as_tensor(self.scaling))
        if self.output_projection is not None:
            _check_finite("output_projection", self.output_projection)
        # Weights last: made of a query, they are NaN wherever anything else is.
        for name in ("keys", "values", "bias", "weights"):
            if name in given:
                object.__setattr__(self, name, self._clear(name))
        self._check_weights()

    @classmethod
    def from_query(
        cls,
        query: Float[Tensor, "*#batch d_k"],
        keys: Float[Tensor, "*#batch n d_k"],
        values: Float[Tensor, "*#batch n d_v"],
        output_projection: Float[Tensor, "*#batch d_v d_e"] | None = None,
        visible: Bool[Tensor, "*#batch n"] | None = None,
        scaling: float | Float[Tensor, "*#batch"] = 1.0,
        bias: Float[Tensor, "*#batch n"] | None = None,
        dtype: torch.dtype | None = None,
    ) -> AttentionHead:
        r"""The head with $a = \mathrm{softmax}(\text{scaling} \cdot K q + \text{bias})$ over what is visible.

        **Arguments:** `query`: `[*batch, d_k]`, $q$; the others are those of the class. `dtype` is by default
        that of `query`.

        **Returns:** an `AttentionHead`. Its weights are computed in float64, whatever the types given.
        """
        _check_types({"query": query, "keys": keys})
        if query.shape[-1:] != keys.shape[-1:]:
            raise InputError(
                f"query has shape {_shape(query)} and keys have shape {_shape(keys)}: "
                "their last dimensions, d_k, must be equal"
            )
        _check_finite("query", query)
        scale = torch.as_tensor(scaling, dtype=torch.float64, device=keys.device)[..., None]
        logits = scale * (keys.to(torch.float64) @ query.to(torch.float64)[..., None])[..., 0]
        if bias is not None:
            logits = logits + bias
        if visible is not None:
            logits = logits.masked_fill(~visible, -torch.inf)
        weights = torch.softmax(logits, dim=-1)
        if visible is not None:
            weights = weights.masked_fill(~visible, 0.0)
        return cls(weights, keys, values, output_projection, visible, bias, scaling, dtype or query.dtype)

    @classmethod
    def stack(cls, heads: Sequence[AttentionHead]) -> AttentionHead:
        """Several heads as one batch, whatever their numbers of tokens and channels.

        Tokens are padded with invisible ones; keys, values and projections with zero columns. Neither changes
        a result: everything counts visible tokens and columns that are not zero.

        **Arguments:** `heads`: heads of one batch shape and one dtype.

        **Returns:** an `AttentionHead` with batch shape `[len(heads), *batch]`.
        """
        if not heads:
            raise InputError("stack needs at least one head")
        batches = {tuple(head.batch_shape) for head in heads}
        dtypes = {head.eps for head in heads}
        if len(batches) > 1 or len(dtypes) > 1:
            raise InputError(
                f"heads stacked into one batch must agree in batch shape and dtype, not have batch shapes "
                f"{sorted(batches)} and dtypes {sorted({str(head.dtype) for head in heads})}"
            )
        projected = any(head.output_projection is not None for head in heads)
        biased = any(head.bias is not None for head in heads)
        # Without a projection, zero columns of the values are zero columns of the output; keep it so.
        projections = [
            head.output_projection
            if head.output_projection is not None
            else torch.diag_embed((head.values != 0).any(dim=-2).to(torch.float64))
            for head in heads
        ]
        return cls(
            weights=_pad([head.weights for head in heads], batches, 1),
            keys=_pad([head.keys for head in heads], batches, 2),
            values=_pad([head.values for head in heads], batches, 2),
            output_projection=_pad(projections, batches, 2) if projected else None,
            visible=_pad([head.mask for head in heads], batches, 1),
            bias=_pad([_or_zeros(head.bias, head.mask) for head in heads], batches, 1) if biased else None,
            scaling=_pad([torch.as_tensor(head.scaling).to(head.weights) for head in heads], batches, 0),
            dtype=heads[0].dtype,
        )

    def __getitem__(self, index: _Index | tuple[_Index, ...]) -> AttentionHead:
        """The heads at `index`, which counts batch dimensions only, as it would on a tensor of that shape."""
        indices = index if isinstance(index, tuple) else (index,)
        counted = sum(entry is not Ellipsis for entry in indices)
        if counted > len(self.batch_shape):
            raise IndexError(f"{counted} indices for a head with batch shape {tuple(self.batch_shape)}")

        def pick(tensor: Tensor, own: int) -> Tensor:
            whole = tensor.expand(*self.batch_shape, *tensor.shape[tensor.ndim - own :])
            # An ellipsis would otherwise swallow the dimensions after the batch.
            rest = (slice(None),) * own if any(entry is Ellipsis for entry in indices) else ()
            return whole[(*indices, *rest)]

        changed: dict[str, Tensor] = {
            name: pick(tensor, own)
            for name, own in _OWN_DIMENSIONS.items()
            if (tensor := getattr(self, name)) is not None
        }
        scaling = pick(self.scaling, 0) if isinstance(self.scaling, Tensor) else self.scaling
        return dataclasses.replace(self, **changed, scaling=scaling)

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of the batch."""
        return self.weights.shape[:-1]

    @property
    def eps(self) -> float:
        """The machine epsilon of the type in which the model computed."""
        return torch.finfo(self.dtype or torch.float64).eps

    @cached_property
    def mask(self) -> Bool[Tensor, "*#batch n"]:
        """`visible`, with `None` spelt out."""
        if self.visible is not None:
            return self.visible
        return torch.ones(self.weights.shape[-1:], dtype=torch.bool, device=self.weights.device)

    @cached_property
    def tokens(self) -> Int[Tensor, "*#batch"]:
        """The number of visible tokens."""
        return self.mask.sum(dim=-1)

    @property
    def visible_values(self) -> Float[Tensor, "*#batch n d_v"]:
        """$V$, zero where not visible."""
        batch = self.values.shape[:-2]
        if broadcast(batch, self.mask.shape[:-1]) == batch:
            return self.values  # no row sees less than another: cleared from the start
        return self.values.masked_fill(~self.mask[..., None], 0.0)

    @property
    def transformed(self) -> Float[Tensor, "*#batch n d_e"]:
        r"""$T = V D$: what one unit of weight on a token adds to the output; zero if not visible."""
        visible = self.visible_values
        return visible if self.output_projection is None else visible @ self.output_projection

    @property
    def output(self) -> Float[Tensor, "*batch d_e"]:
        r"""$h = a T$: what the head adds to the output of its layer."""
        mixed = (self.weights[..., None, :] @ self.values)[..., 0, :]
        if self.output_projection is None:
            return mixed
        return (mixed[..., None, :] @ self.output_projection)[..., 0, :]

    @cached_property
    def reduced(self) -> Float[Tensor, "*#batch n r"]:
        r"""$W$ with $W W^\top = T T^\top$ and no more columns than needed, $r = \min(d_v, d_e)$.

        With $D D^\top = L L^\top$, $T T^\top = (V L) (V L)^\top$: $W = V L$ has the singular values and the
        column space of $T$, and $W^\top U$ those of $T^\top U$, at a cost that does not grow with $d_e$.
        """
        projection = self.output_projection
        if projection is None or projection.shape[-1] <= projection.shape[-2]:
            return self.transformed
        return self.visible_values @ row_factor(projection)

    def _clear(self, name: str) -> Tensor:
        """A tensor with zeros where no row sees the token; an error if it is not finite elsewhere."""
        tensor: Tensor = getattr(self, name)
        trailing = _OWN_DIMENSIONS[name] - 1
        # A tensor that several rows share keeps what any of them sees.
        seen = _shared_by_any(self.mask, tensor.shape[: tensor.ndim - trailing])
        cleared = tensor.masked_fill(~seen[(..., *[None] * trailing)], 0.0)
        _check_finite(name, cleared)
        return cleared

    def _check_weights(self) -> None:
        tokens = self.tokens
        if bool((tokens == 0).any()):
            raise InputError(f"visible has shape {_shape(self.mask)} and leaves a row without a single token")
        if bool((self.weights < 0).any()):
            raise InputError(f"weights have shape {_shape(self.weights)} and a negative entry")
        total = self.weights.sum(dim=-1)
        # Room for the rounding of each weight and of the softmax, none for dropout or for another axis.
        allowed = min(0.05, max(1e-3, self.eps * (16 + self.weights.shape[-1])))
        if bool(((total - 1).abs() > allowed).any()):
            worst = float(total.flatten()[int((total - 1).abs().argmax())])
            raise InputError(
                f"weights have shape {_shape(self.weights)} and a row that sums to {worst:.6g} over its "
                "visible tokens, not to 1: give them as they leave the softmax, before dropout"
            )


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _check_types(given: dict[str, Tensor]) -> None:
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"{name} must be a torch.Tensor, not {type(tensor).__name__}: use torch.as_tensor"
            )
        if name == "visible":
            if tensor.dtype != torch.bool:
                raise InputError(f"visible must be of dtype torch.bool, not {tensor.dtype}")
        elif not tensor.is_floating_point():
            raise InputError(f"{name} must be of a floating-point dtype, not {tensor.dtype}")
        needed = _OWN_DIMENSIONS.get(name, 1)
        if tensor.ndim < needed:
            raise InputError(f"{name} has shape {_shape(tensor)}: it needs {needed} dimensions or more")


def _check_shapes(given: dict[str, Tensor], scaling: float | Tensor) -> torch.Size:
    """The broadcast batch shape, after checking that all sizes agree."""
    weights, keys, values = given["weights"], given["keys"], given["values"]
    token_dimension = {"keys": -2, "values": -2, "visible": -1, "bias": -1}
    for name, dimension in token_dimension.items():
        if name in given and given[name].shape[dimension] != weights.shape[-1]:
            raise InputError(
                f"{name} has shape {_shape(given[name])} and weights have shape {_shape(weights)}: "
                f"they differ in the number of tokens, {given[name].shape[dimension]} and {weights.shape[-1]}"
            )
    projection = given.get("output_projection")
    if projection is not None and projection.shape[-2] != values.shape[-1]:
        raise InputError(
            f"output_projection has shape {_shape(projection)} and values have shape {_shape(values)}: "
            f"they differ in d_v, {projection.shape[-2]} and {values.shape[-1]}"
        )
    for name, tensor in (("keys", keys), ("values", values), ("output_projection", projection)):
        if tensor is not None and 0 in tensor.shape[-2:]:
            raise InputError(f"{name} has shape {_shape(tensor)}: it is empty")
    batch = torch.Size()
    known = ""
    leading = {name: tensor.shape[: tensor.ndim - _OWN_DIMENSIONS[name]] for name, tensor in given.items()}
    if isinstance(scaling, Tensor):
        leading["scaling"] = scaling.shape
    for name, shape in leading.items():
        try:
            batch = broadcast(batch, shape)
        except RuntimeError:
            raise InputError(
                f"the batch dimensions {tuple(shape)} of {name} do not broadcast against "
                f"{tuple(batch)}, those of {known}"
            ) from None
        known = f"{known}, {name}" if known else name
    return batch


def _check_finite(name: str, tensor: Tensor) -> None:
    # Both ends in one pass over the memory: NaN is an end wherever there is one. What is at fault is looked for later.
    if tensor.numel() == 0:
        return
    least, largest = tensor.aminmax()
    if bool((least >= -_LARGEST) & (largest <= _LARGEST)):
        return
    where = tuple(int(i) for i in (~(tensor.abs() <= _LARGEST)).nonzero()[0])
    raise InputError(
        f"{name} has shape {_shape(tensor)} and holds {float(tensor[where])} at {where}: "
        "only what is not visible may hold NaN, infinity, or numbers beyond 1e75"
    )


def _compact(tensor: Tensor, own: int) -> Tensor:
    """Undoes `expand` on batch dimensions, so that what is shared is computed once."""
    for dimension in range(tensor.ndim - own):
        if tensor.stride(dimension) == 0 and tensor.shape[dimension] > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def _shared_by_any(mask: Tensor, shape: torch.Size) -> Tensor:
    """`mask` reduced to what any of the rows sees that share a tensor of `shape` `[*#batch, n]`."""
    while mask.ndim > len(shape):
        mask = mask.any(dim=0)
    for dimension in range(-mask.ndim, -1):
        if shape[dimension] == 1:
            mask = mask.any(dim=dimension, keepdim=True)
    return mask


def _or_zeros(bias: Tensor | None, mask: Tensor) -> Tensor:
    return torch.zeros_like(mask, dtype=torch.float64) if bias is None else bias


def _pad(tensors: Sequence[Tensor], batches: set[tuple[int, ...]], own: int) -> Tensor:
    """Stacks tensors `[*batch, ...]` after padding their last `own` dimensions with zeros at the end."""
    (batch,) = batches
    sizes = [max(tensor.shape[tensor.ndim - own + i] for tensor in tensors) for i in range(own)]
    stacked = tensors[0].new_zeros(len(tensors), *batch, *sizes)
    for target, tensor in zip(stacked, tensors, strict=True):
        corner = (..., *(slice(0, size) for size in tensor.shape[tensor.ndim - own :]))
        target[corner] = tensor
    return stacked
