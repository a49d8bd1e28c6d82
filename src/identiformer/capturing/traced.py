"""Logits on their way from the product of queries and keys to the softmax, as a form that is affine in the query."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.capturing.call import AttentionCall, RelativeKeys

Size = torch.Size


@dataclass(frozen=True, eq=False)
class Product:
    """`factor * q_i · key_j`, or, with an index, `factor * q_i · key_index[i, j]`.

    Args:
        query: `[..., rows, d_k]`.
        key: `[..., n, d_k]`.
        index: `[..., rows, n]`, or `None`.
        factor: A number.
    """

    query: Tensor
    key: Tensor
    index: Tensor | None
    factor: float


@dataclass(frozen=True)
class Lost:
    """A tensor made of logits, of which it is not known what was done to them.

    Args:
        reason: What it was, in a few words.
    """

    reason: str


@dataclass(frozen=True, eq=False)
class Logits:
    """A tensor known to be the sum of products with one query, and of terms that the query has no part in.

    Args:
        shape: The shape of the tensor, `[..., rows, n]`.
        products: At least one; all with the same query.
        terms: Tensors added, each with its factor and with the shape that the logits had then.
        visible: Boolean tensors, false where a token was hidden, each with the shape that the logits had then.
    """

    shape: Size
    products: tuple[Product, ...]
    terms: tuple[tuple[Tensor, float, Size], ...] = ()
    visible: tuple[tuple[Tensor, Size], ...] = ()

    @classmethod
    def product(cls, one: Tensor, other: Tensor, shape: Size, factor: float = 1.0) -> Logits:
        """Those of a matrix product: `one` `[..., rows, d_k]`, `other` `[..., d_k, n]`."""
        return cls(shape, (Product(one, other.mT, None, factor),))

    @property
    def query(self) -> Tensor:
        """The query of all products."""
        return self.products[0].query

    def scaled(self, factor: float) -> Logits:
        """Multiplied by a number."""
        products = tuple(dataclasses.replace(p, factor=p.factor * factor) for p in self.products)
        terms = tuple((term, scale * factor, shape) for term, scale, shape in self.terms)
        return dataclasses.replace(self, products=products, terms=terms)

    def plus(self, term: Tensor, factor: float, shape: Size) -> Logits | Lost:
        """With a term added that the query has no part in; the sum has the shape `shape`."""
        if shape != self.shape:
            return Lost("they are added to something larger")
        if term.shape[-1] == 1 < shape[-1]:
            return self  # the same for all tokens of a row: the softmax does not see it
        return dataclasses.replace(self, terms=(*self.terms, (term, factor, shape)))

    def joined(self, other: Logits, factor: float) -> Logits:
        """With other logits of the same query and shape added."""
        summand = other.scaled(factor)
        return dataclasses.replace(
            self,
            products=self.products + summand.products,
            terms=self.terms + summand.terms,
            visible=self.visible + summand.visible,
        )

    def hiding(self, visible: Tensor) -> Logits:
        """With tokens hidden."""
        return dataclasses.replace(self, visible=(*self.visible, (visible, self.shape)))

    def gathered(self, index: Tensor) -> Logits | Lost:
        """With the tokens of each row chosen anew: of one product, to which nothing was added yet."""
        product, *others = self.products
        if others or self.terms or self.visible or product.index is not None:
            return Lost("they are gathered")
        product = dataclasses.replace(product, index=index)
        return dataclasses.replace(self, products=(product,), shape=index.shape)

    def reshaped(self, shape: Size) -> Logits | Lost:
        """With other dimensions before the last two."""
        if shape[-2:] != self.shape[-2:]:
            return Lost("their rows or tokens are reshaped")
        return dataclasses.replace(self, shape=shape)


def ended(logits: Logits | Lost, value: Tensor, mixed: Tensor, texts: int) -> AttentionCall:
    """The call of attention that logits ended in.

    Args:
        logits: What went into the softmax.
        value: `[..., n, d_v]`.
        mixed: The weights times the values, `[..., rows, d_v]`.
        texts: How many texts are computed at once.
    """
    lead = mixed.shape[:-2]
    if mixed.ndim != 4:
        lead = torch.Size((texts, lead.numel() // texts))
    at_lead = _reshaper(lead)
    output = at_lead(mixed)
    if isinstance(logits, Logits):
        plain = [product for product in logits.products if product.index is None]
        if len(plain) == 1:
            (main,) = plain
            added = [at_lead(_compatible(term, shape, lead)) * factor for term, factor, shape in logits.terms]
            added += [at_lead(_compatible(visible, shape, lead)) for visible, shape in logits.visible]
            return AttentionCall(
                module=None,
                query=at_lead(main.query),
                key=at_lead(main.key),
                value=at_lead(value),
                added=tuple(added),
                scaling=main.factor,
                mixed=output.transpose(1, 2),
                relative=tuple(
                    RelativeKeys(at_lead(product.key), at_lead(product.index), product.factor)
                    for product in logits.products
                    if product.index is not None
                ),
            )
        logits = Lost("they are of several products")
    return AttentionCall(
        module=None,
        query=output,
        key=at_lead(value),
        value=at_lead(value),
        added=(),
        scaling=1.0,
        mixed=output.transpose(1, 2),
        broken=f"its logits are not known to be linear in the query ({logits.reason})",
    )


def _compatible(tensor: Tensor, shape: Size, lead: Size) -> Tensor:
    """A tensor that was broadcast against `shape`, so that the first dimensions can be split as in `lead`."""
    if shape[:-2] == lead or tensor.ndim <= 2:
        return tensor
    return tensor.expand(shape)


def _reshaper(lead: Size) -> Callable[[Tensor], Tensor]:
    """Puts a tensor `[texts * heads, ...]` into the dimensions `[texts, heads, ...]`; others stay."""

    def reshape(tensor: Tensor) -> Tensor:
        if tensor.ndim == 3 and tensor.shape[0] == lead[0] * lead[1]:
            return tensor.reshape(*lead, *tensor.shape[1:])
        if tensor.ndim < 4:
            return tensor[(None,) * (4 - tensor.ndim)]
        return tensor

    return reshape


def hides(value: object) -> bool:
    """Whether a number put in place of a logit hides the token."""
    if isinstance(value, Tensor):
        value = value.item() if value.numel() == 1 else None
    return isinstance(value, (int, float)) and value <= -1e4


def number(value: object) -> float | None:
    """A number, or a tensor that is one; `None` for all else."""
    if isinstance(value, Tensor):
        return float(value) if value.ndim == 0 and value.dtype != torch.bool else None
    return float(value) if isinstance(value, (int, float)) else None
