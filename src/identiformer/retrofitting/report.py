"""What a retrofit costs and what it brings: drift of the outputs, margins of the heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from identiformer.capturing import capture_inputs
from identiformer.errors import InputError
from identiformer.identifiability import Level, Verdict, certify
from identiformer.retrofitting.inputs import Batch
from identiformer.threads import threads_for

# What margins are measured on.
MARGIN_TEXTS = 16
MARGIN_ROWS = 8  # of each text, from the first


@dataclass(frozen=True)
class Drift:
    """How far the outputs moved.

    Args:
        texts: The texts that were compared.
        mean_cosine, min_cosine: Of the mean-pooled last hidden states before and after.
        max_logit_change: The greatest absolute change of a logit; `None` where the model does not classify.
        labels_changed: The texts whose label is another one; `None` where the model does not classify.
    """

    texts: int
    mean_cosine: float
    min_cosine: float
    max_logit_change: float | None
    labels_changed: int | None


@dataclass(frozen=True)
class HeadMargins:
    """The margins of one head at `generatable`, over the rows of all texts looked at.

    Args:
        layer, head: Counted from 0.
        rows: How many rows.
        least, low, median: The least margin, the first percentile, and the median.
        none, local, everywhere: How many rows have the verdicts `none`, `local` and `global`.
    """

    layer: int
    head: int
    rows: int
    least: float
    low: float
    median: float
    none: int
    local: int
    everywhere: int

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {
            "layer": self.layer,
            "head": self.head,
            "rows": self.rows,
            "margin": {"min": self.least, "p01": self.low, "median": self.median},
            "verdict": {"none": self.none, "local": self.local, "global": self.everywhere},
        }


@dataclass(frozen=True)
class RetrofitReport:
    """What a retrofit did.

    Args:
        strength, seed: As they were given.
        texts: How many texts were given; `None` where random tokens stood in for them.
        drift: Of the outputs.
        before, after: The margins of each head.
    """

    strength: float
    seed: int
    texts: int | None
    drift: Drift
    before: list[HeadMargins]
    after: list[HeadMargins]

    @property
    def identifiable(self) -> bool:
        """Whether every row looked at has the verdict `global`."""
        return all(head.everywhere == head.rows for head in self.after)

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {
            "strength": self.strength,
            "seed": self.seed,
            "texts": self.texts,
            "drift": asdict(self.drift),
            "before": [head.to_dict() for head in self.before],
            "after": [head.to_dict() for head in self.after],
        }


def margins(
    model: PreTrainedModel, batches: Sequence[Batch], step: Callable[[], None] = lambda: None
) -> list[HeadMargins]:
    """The margins of every head at `generatable`, over the first rows of each text.

    Args:
        model: A model whose attention can be captured.
        batches: What to call it with.
        step: Called after each batch.

    Raises:
        InputError: If a head cannot be captured.
    """
    found: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
    for batch in batches:
        with threads_for(model):
            for layer in capture_inputs(model, batch, rows=MARGIN_ROWS):
                if layer.heads is None or layer.refused:
                    reasons = "; ".join(sorted(set(layer.refused.values())))
                    raise InputError(f"layer {layer.layer} cannot be certified, before or after: {reasons}")
                certificate = certify(layer.heads)[Level.GENERATABLE]
                real = layer.rows >= 0  # [texts, rows]
                for place, head in enumerate(layer.head_numbers):
                    found.setdefault((layer.layer, head), []).append(
                        (certificate.margin[:, place][real], certificate.verdict[:, place][real])
                    )
        step()
    return [_summary(layer, head, parts) for (layer, head), parts in sorted(found.items())]


def _summary(layer: int, head: int, parts: Sequence[tuple[Tensor, Tensor]]) -> HeadMargins:
    margin, verdict = (torch.cat(tensors).cpu() for tensors in zip(*parts, strict=True))
    least, low, median = margin.quantile(torch.tensor([0.0, 0.01, 0.5], dtype=margin.dtype)).tolist()
    none, local, everywhere = (int((verdict == which).sum()) for which in Verdict)
    return HeadMargins(layer, head, len(margin), least, low, median, none, local, everywhere)


def some_of(batches: Sequence[Batch], texts: int = MARGIN_TEXTS) -> list[Batch]:
    """About so many texts, out of batches of all lengths: a certificate takes longer than the attention itself."""
    used = min(len(batches), texts)
    each = texts // used
    chosen = torch.linspace(0, len(batches) - 1, used).round().long().tolist()
    some: list[Batch] = []
    for place in chosen:
        size = len(batches[place]["input_ids"])
        rows = torch.linspace(0, size - 1, min(each, size)).round().long()
        some.append({name: tensor[rows.to(tensor.device)] for name, tensor in batches[place].items()})
    return some


def drift(
    before: PreTrainedModel,
    after: PreTrainedModel,
    batches: Sequence[Batch],
    step: Callable[[], None] = lambda: None,
) -> Drift:
    """How far the outputs of two models are apart.

    Args:
        before, after: Models of one kind.
        batches: What to call them with.
        step: Called after each batch.
    """
    cosines: list[Tensor] = []
    changes: list[Tensor] = []
    labels: list[Tensor] = []
    classifies = "ForSequenceClassification" in type(before).__name__
    was_training = before.training
    before.eval()
    for batch in batches:
        with torch.no_grad(), threads_for(before):
            (old, new) = (model.base_model(**batch).last_hidden_state.double() for model in (before, after))
            visible = batch["attention_mask"][..., None].double()
            pooled = [(hidden * visible).sum(dim=1) / visible.sum(dim=1) for hidden in (old, new)]
            cosines.append(torch.cosine_similarity(*pooled, dim=-1))
            if classifies:
                logits = [model(**batch).logits for model in (before, after)]
                changes.append((logits[0] - logits[1]).abs().amax(dim=-1))
                labels.append(logits[0].argmax(dim=-1) != logits[1].argmax(dim=-1))
        step()
    before.train(was_training)
    cosine = torch.cat(cosines)
    return Drift(
        texts=len(cosine),
        mean_cosine=float(cosine.mean()),
        min_cosine=float(cosine.min()),
        max_logit_change=float(torch.cat(changes).max()) if classifies else None,
        labels_changed=int(torch.cat(labels).sum()) if classifies else None,
    )
