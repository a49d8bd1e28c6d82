"""What a model's keys and mixed values are like, on average, over the rows that it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from identiformer.retrofitting.families import Family, Site, sites
from identiformer.threads import threads_for


@dataclass(frozen=True, eq=False)
class Moments:
    r"""Moments of the heads of one site, over all rows that are no padding.

    A head whose values carry its keys mixes them to $m = a [V\ K]$, $[d_v + d_k]$.

    Args:
        key_mean: The mean key, `[heads, d_k]`.
        mixed_mean: The mean of $m$, `[heads, d_v + d_k]`.
        mixed_covariance: Its covariance, `[heads, d_v + d_k, d_v + d_k]`.
    """

    key_mean: Float[Tensor, "heads d_k"]
    mixed_mean: Float[Tensor, "heads merged"]
    mixed_covariance: Float[Tensor, "heads merged merged"]


class _Sums:
    """Running sums of one site, in float64: their error stays far below that of the model."""

    def __init__(self, heads: int):
        self.heads = heads
        self.rows = 0
        self.key: Tensor | float = 0.0
        self.mixed: Tensor | float = 0.0
        self.square: Tensor | float = 0.0

    def add_keys(self, keys: Float[Tensor, "rows columns"]) -> None:
        self.key += self._by_head(keys).sum(dim=1)

    def add_mixed(self, mixed: Float[Tensor, "rows columns"]) -> None:
        by_head = self._by_head(mixed)
        self.rows += by_head.shape[1]
        self.mixed += by_head.sum(dim=1)
        self.square += by_head.mT @ by_head

    def moments(self) -> Moments:
        mean = torch.as_tensor(self.mixed) / self.rows
        square = torch.as_tensor(self.square) / self.rows
        return Moments(torch.as_tensor(self.key) / self.rows, mean, square - mean[:, :, None] * mean[:, None])

    def _by_head(self, rows: Tensor) -> Float[Tensor, "heads rows size"]:
        return rows.double().unflatten(-1, (self.heads, -1)).transpose(0, 1)


def moments(
    model: PreTrainedModel,
    family: Family,
    batches: Iterable[Mapping[str, Tensor]],
    step: Callable[[], None] = lambda: None,
) -> dict[str, Moments]:
    """The moments of every site of a model, by the site's name.

    Args:
        model: One whose values carry its keys, in evaluation mode; `E` may be anything.
        family: Its family.
        batches: What to call it with; each with an `attention_mask`.
        step: Called after each batch.
    """
    found = sites(model, family)
    sums = {site.name: _Sums(model.config.num_attention_heads) for site in found}
    visible: Bool[Tensor, "batch n"] = torch.ones(0, 0, dtype=torch.bool)

    def watch(site: Site, stack: ExitStack) -> None:
        total = sums[site.name]

        def after_key(_module: Any, _inputs: Any, output: Tensor) -> None:
            total.add_keys(output[visible])

        def before_output(_module: Any, inputs: tuple[Tensor, ...]) -> None:
            total.add_mixed(inputs[0][visible])

        for handle in (
            site.key.register_forward_hook(after_key),
            site.output.register_forward_pre_hook(before_output),
        ):
            stack.callback(handle.remove)

    with ExitStack() as stack, torch.no_grad(), threads_for(model):
        for site in found:
            watch(site, stack)
        for batch in batches:
            visible = batch["attention_mask"].bool()
            model(**batch)
            step()
    return {name: total.moments() for name, total in sums.items()}
