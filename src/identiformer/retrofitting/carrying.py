"""From a pretrained encoder to one whose values carry its keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.errors import InputError
from identiformer.loading import check_numbers
from identiformer.retrofitting.configurations import CONFIGURATIONS
from identiformer.retrofitting.families import Family, Site, family_of, sites
from identiformer.retrofitting.inputs import random_batches, text_batches
from identiformer.retrofitting.models import CARRYING_MODELS
from identiformer.retrofitting.moments import Moments, moments
from identiformer.retrofitting.projection import carrying_projection
from identiformer.retrofitting.report import RetrofitReport, drift, margins, some_of

Progress = Callable[[int, int], None]  # batches done since the last call, batches in all


def retrofit(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    strength: float = 0.01,
    texts: Sequence[str] | None = None,
    seed: int = 0,
    *,
    progress: Progress = lambda _done, _total: None,
) -> tuple[PreTrainedModel, RetrofitReport]:
    r"""A copy of an encoder whose every head is identifiable at `generatable`, at any length.

    The values of each head carry its keys (IDENTIFIABILITY.md, "Values that carry keys"): where the head gave
    $a V D$, it gives

    $$a V D + (a K - \mathrm{const}) E,$$

    with a small $E$, `[d_k, d_e]`, whose rows are orthogonal to those of $D$. The constant, the mean of $a K$, is
    absorbed in the bias of the output projection; the mean key is absorbed in the bias of the keys, which
    changes no weight. What $E$ is, and how strength sets its size: [`carrying_projection`][].

    With texts, half of them (every other one) are run through the model for the moments of keys and outputs, and
    the other half for the report. Without, sequences of random tokens of the vocabulary stand in for both.

    Args:
        model: An encoder of BERT's kin (`FAMILIES`), alone or with a head for a task; it is not changed.
        tokenizer: Its tokenizer; needed where there are texts.
        strength: What is added to a head's output varies by this share of what the output varies by.
        texts: Texts like those that the model is for.
        seed: Of the directions of $E$, and of random tokens.
        progress: Called as batches are done.

    Returns:
        The retrofitted model, in evaluation mode, and what it costs and brings.

    Raises:
        InputError: If the model cannot be retrofitted, or an argument is out of range.
    """
    if not (strength > 0 and math.isfinite(strength)):
        raise InputError(f"--strength is {strength}: give a number above 0, such as 0.01")
    if texts is not None and tokenizer is None:
        raise InputError("retrofit needs the tokenizer to read texts: give it too, or no texts")
    if texts is not None and not texts:
        raise InputError("there are no texts to retrofit with: give some, or none at all for random tokens")
    family = family_of(model.config)
    check_numbers(f"the {type(model).__name__}", model)
    carrying = widened(model, family)
    generator = torch.Generator().manual_seed(seed)
    if texts is not None and tokenizer is not None:
        calibration = text_batches(carrying, tokenizer, texts[::2])
        measuring = text_batches(carrying, tokenizer, texts[1::2] or texts)
    else:
        calibration = random_batches(carrying, tokenizer, generator)
        measuring = random_batches(carrying, tokenizer, generator)
    some = some_of(measuring)
    total = len(calibration) + 2 * len(some) + len(measuring)

    def step() -> None:
        progress(1, total)

    found = moments(carrying, family, calibration, step)
    before = margins(carrying, some, step)
    for site in sites(carrying, family):
        _carry(site, found[site.name], strength, generator)
    carrying.config.retrofit = {"strength": strength, "seed": seed}
    after = margins(carrying, some, step)
    report = RetrofitReport(
        strength=strength,
        seed=seed,
        texts=None if texts is None else len(texts),
        drift=drift(model, carrying, measuring, step),
        before=before,
        after=after,
    )
    return carrying, report


def widened(model: PreTrainedModel, family: Family) -> PreTrainedModel:
    """A copy of a model with values that carry keys, and with `E = 0`: it computes what the model computes."""
    carrying_class = CARRYING_MODELS.get(type(model))
    if carrying_class is None:
        names = ", ".join(sorted(base.__name__ for base in CARRYING_MODELS if _is_of(base, family)))
        raise InputError(f"a {type(model).__name__} cannot be retrofitted; give one of {names}")
    if torch.finfo(model.dtype).eps > 1e-6:
        raise InputError(
            f"the model computes in {str(model.dtype).removeprefix('torch.')}, which cannot tell what a retrofit "
            "adds: load it in float32 (dtype=torch.float32)"
        )
    settings = model.config.to_dict()
    settings.pop("model_type", None)
    config = CONFIGURATIONS[family.model_type].from_dict(settings)
    config._attn_implementation = model.config._attn_implementation
    with torch.random.fork_rng(devices=[]):
        carrying = carrying_class(config)
    carrying = carrying.to(device=model.device, dtype=model.dtype)  # pyright: ignore[reportCallIssue]
    weights = model.state_dict()
    for site in sites(carrying, family):
        name = f"{site.name}.{family.output}.weight"
        own = _by_head(weights[name], config.num_attention_heads)
        weights[name] = _joined(torch.cat([own, torch.zeros_like(own)], dim=1))
    carrying.load_state_dict(weights)
    return carrying.eval()


def _carry(site: Site, found: Moments, strength: float, generator: torch.Generator) -> None:
    """Set the projection of one site's carried keys, and the constants that go with it."""
    heads, key_size = found.key_mean.shape
    output = site.output
    projection = _by_head(output.weight.detach().double(), heads)  # [heads, d_v + d_k, d_e]
    own = projection[:, :-key_size]
    added = carrying_projection(own, found.mixed_covariance, strength, generator)
    mean = found.mixed_mean[:, -key_size:] - found.key_mean  # of the mixed keys, once keys have mean zero
    with torch.no_grad():
        output.weight.copy_(_joined(torch.cat([own, added], dim=1)))
        output.bias.sub_(torch.einsum("hk,hke->e", mean, added))
        site.key.bias.sub_(found.key_mean.flatten())


def _by_head(weight: Tensor, heads: int) -> Tensor:
    """The weight of an output projection, `[d_e, heads * d]`, as `[heads, d, d_e]`."""
    return weight.T.unflatten(0, (heads, -1))


def _joined(projection: Tensor) -> Tensor:
    """The inverse of `_by_head`."""
    return projection.flatten(0, 1).T.contiguous()


def _is_of(model_class: type[PreTrainedModel], family: Family) -> bool:
    return model_class.config_class is family.config_class
