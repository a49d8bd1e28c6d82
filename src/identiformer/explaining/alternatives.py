"""Other weights for a row of an explanation that give the same output of its head, by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from identiformer.capturing import run_with_weights
from identiformer.explaining.levels import LevelResult
from identiformer.identifiability import Alternative, AlternativeStatus, AttentionHead, Level, alternative
from identiformer.identifiability.group_alternatives import group_alternatives
from identiformer.loading import label_list

if TYPE_CHECKING:
    from identiformer.words import ReadText

# Up to here one alternative is as far as another.
_SAME_DISTANCE = 1e-9
Goal = Literal["farthest", "favour", "avoid"]


@dataclass(frozen=True)
class ExplainedAlternative:
    """Other weights of one row with the same output, or why there are none.

    Args:
        goal: `farthest`, weights as far away as were found; `favour` or `avoid`, with as much or as little for a word
            as there can be.
        word: The word; `None` for `farthest`.
        level: `simplex` or `generatable`.
        status: `found`, `unique` or `not_found`, as of `identifiability.AlternativeStatus`.
        reason: The status in a sentence.
        weights: By token, `[n]`; this, `distance` and `residual` are `None` where none was found.
        distance: The total variation distance to the row's own weights.
        residual: By how much the head's output moves, relative to it.
        sink: The weight that goes to no token, in heads that have a sink.
        output_change: The largest change of any number that the model gives when it runs with these weights,
            relative to the largest of them; `None` where it was not run.
        probabilities: What the model then says of each label; `None` where it was not run or chooses none.
    """

    goal: Goal
    word: int | None
    level: str
    status: str
    reason: str
    weights: np.ndarray | None = None
    distance: float | None = None
    residual: float | None = None
    sink: float | None = None
    output_change: float | None = None
    probabilities: dict[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {
            "goal": self.goal,
            "word": self.word,
            "level": self.level,
            "status": self.status,
            "reason": self.reason,
            "weights": None if self.weights is None else self.weights.tolist(),
            "distance": self.distance,
            "residual": self.residual,
            "output_change": self.output_change,
            "probabilities": self.probabilities,
        }


@dataclass(frozen=True)
class AlternativeLimits:
    """How many alternatives an explanation gets: they take time, and each has a weight for every token.

    Args:
        rows: Rows of heads that get any, from the first on.
        programs: Alternatives that favour or avoid a word, over all rows.
        values: Weights in all of those.
    """

    rows: int = 200
    programs: int = 2000
    values: int = 1_500_000


class AlternativeSearch:
    """Looks for the alternatives of the rows of one explanation, one row after the other.

    Each row has the farthest, at `simplex` and at `generatable` where its nullity there is not 0; and on the simplex
    those that favour and avoid its heaviest words, of as many words as the limits allow for all rows alike. Where the
    farthest is none, for certain, so are all others.

    Args:
        limits: The limits.
        read: The text.
        rows: How many rows of heads there will be.

    Attributes:
        left_out: What the limits leave out, in a sentence; empty where they allow everything.
    """

    def __init__(self, limits: AlternativeLimits, read: ReadText, rows: int):
        self._read = read
        self._rows = min(limits.rows, rows)
        programs = min(limits.programs, limits.values // len(read.tokens))
        self._words = max(programs // (2 * max(self._rows, 1)), 1)
        parts: list[str] = []
        if self._rows < rows:
            parts.append(f"in the first {self._rows} of {rows} rows of heads")
        if self._words < len(read.words):
            parts.append(f"for the {self._words} heaviest words of each row")
        self.left_out = f"alternatives were looked for only {', and '.join(parts)}" if parts else ""

    def of(
        self, head: AttentionHead, word_weights: np.ndarray, levels: Mapping[str, LevelResult], sink: bool
    ) -> list[ExplainedAlternative] | None:
        """The alternatives of the next row; `None` where the limits leave it out.

        Args:
            head: The row.
            word_weights: The weights of its words.
            levels: What its certificate says.
            sink: Whether its last token is a sink.
        """
        if not self._rows:
            return None
        self._rows -= 1
        groups = word_groups(self._read, sink)
        at = [Level.SIMPLEX]
        generatable = levels.get(Level.GENERATABLE)
        if generatable is not None and generatable.nullity:
            at.append(Level.GENERATABLE)
        results = [find_alternative(head, groups, "farthest", level=level, sink=sink) for level in at]
        if results[0].status == AlternativeStatus.UNIQUE:
            return results[:1]
        seen = set(groups[head.mask.cpu()].tolist())
        heaviest = [word for word in np.argsort(-word_weights, kind="stable").tolist() if word in seen]
        for both in group_alternatives(head, groups, heaviest[: self._words]):
            results += [_explained(one, sink) for one in both]
        return [_farthest_of(results), *results[1:]]


def word_groups(read: ReadText, sink: bool) -> Tensor:
    """The word of each token, as groups of `identifiability`; a sink, the token that follows, is in none."""
    groups = torch.full((len(read.tokens) + sink,), -1)
    for number, word in enumerate(read.words):
        groups[word.tokens] = number
    return groups


def find_alternative(
    head: AttentionHead,
    groups: Tensor,
    goal: Goal,
    word: int | None = None,
    level: Level = Level.SIMPLEX,
    *,
    sink: bool = False,
    seed: int = 0,
) -> ExplainedAlternative:
    """One alternative of one row.

    Args:
        head: The row.
        groups: Its words, from `word_groups`.
        goal, word, level: As of `ExplainedAlternative`.
        sink: Whether its last token is a sink.
        seed: Of the search for the farthest.

    Raises:
        InputError: If the row sees nothing of the word.
    """
    if goal == "farthest":
        found = alternative(head, level=level, farthest=True, seed=seed)
    elif goal == "favour":
        found = alternative(head, level=level, favour=word, groups=groups)
    else:
        found = alternative(head, level=level, avoid=word, groups=groups)
    return _explained(found, sink)


def _farthest_of(alternatives: Sequence[ExplainedAlternative]) -> ExplainedAlternative:
    """The first, whose goal is the farthest; with the weights of another on the simplex, if they turn out farther."""
    first = alternatives[0]
    best = max(alternatives, key=lambda one: one.distance or 0.0)
    if best.distance is None or first.distance is None or best.distance <= first.distance + _SAME_DISTANCE:
        return first
    return replace(
        best,
        goal=first.goal,
        word=None,
        reason=f"{best.distance:.4g} of the weight has moved, the most that was found",
    )


def _explained(found: Alternative, sink: bool) -> ExplainedAlternative:
    """An alternative for a row of an explanation, whose groups are its words."""
    weights = None if found.weights is None else found.weights.cpu().numpy()
    return ExplainedAlternative(
        goal=found.goal.value,
        word=found.token,
        level=found.level.value,
        status=found.status.value,
        reason=found.reason.replace(f"group {found.token} ", "the word "),
        weights=weights if weights is None or not sink else weights[:-1],
        distance=found.distance,
        residual=found.residual,
        sink=float(weights[-1]) if weights is not None and sink else None,
    )


def run_alternatives(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    alternatives: Sequence[ExplainedAlternative],
    *,
    layer: int,
    head: int,
    row: int,
    weights: np.ndarray,
    sink: float | None,
) -> list[ExplainedAlternative]:
    """The same alternatives; those that were found with what the model gives when it runs with them.

    Args:
        model, inputs: What was explained; no capture of it may be under way.
        alternatives: Those of one row.
        layer, head, row, weights, sink: That row, as a `HeadExplanation` has them.
    """

    def given(weights: np.ndarray, sink: float | None) -> Tensor:
        every = torch.as_tensor(weights if sink is None else np.append(weights, sink), device=model.device)
        output = run_with_weights(model, inputs, layer=layer, head=head, row=row, weights=every)
        return output.get("logits", output.get("last_hidden_state")).double()

    if all(one.weights is None for one in alternatives):
        return list(alternatives)
    # The model's own weights go the same way, so that nothing else differs.
    before = given(weights, sink)
    largest = float(before.abs().max()) or 1.0
    results: list[ExplainedAlternative] = []
    for one in alternatives:
        if one.weights is not None:
            after = given(one.weights, one.sink)
            change = float((after - before).abs().max()) / largest
            labels = label_probabilities(model, after) if chooses_label(model) else None
            one = replace(one, output_change=change, probabilities=labels)
        results.append(one)
    return results


def chooses_label(model: PreTrainedModel) -> bool:
    """Whether the model chooses one label of several for a text."""
    config = model.config
    chooses = (config.num_labels or 0) > 1 and config.problem_type in (None, "single_label_classification")
    return "ForSequenceClassification" in type(model).__name__ and chooses


def label_probabilities(model: PreTrainedModel, logits: Tensor) -> dict[str, float]:
    """The probability of each label, from the logits of one text, `[1, labels]`."""
    return dict(zip(label_list(model), logits[0].double().softmax(dim=-1).tolist(), strict=True))
