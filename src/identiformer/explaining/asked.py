"""One alternative of one row, when somebody asks for it."""

from __future__ import annotations

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import CapturedLayer, capture_inputs, encode_texts
from identiformer.errors import InputError
from identiformer.explaining.alternatives import (
    ExplainedAlternative,
    Goal,
    find_alternative,
    run_alternatives,
    word_groups,
)
from identiformer.explaining.heads import attends_elsewhere
from identiformer.identifiability import AttentionHead, Level
from identiformer.threads import threads_for
from identiformer.words import ReadText, read_words

_LEVELS = (Level.SIMPLEX, Level.GENERATABLE)


def explain_alternative(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    text_pair: str | None = None,
    *,
    layer: int,
    head: int,
    row: int,
    goal: Goal = "farthest",
    word: int | None = None,
    level: Level | str = Level.SIMPLEX,
    run: bool = True,
    seed: int = 0,
) -> ExplainedAlternative:
    """Other weights for one row of an explanation, with the same output of its head.

    Args:
        model, tokenizer, text, text_pair: As of `explain`.
        layer, head, row: As a `HeadExplanation` has them.
        goal, word: What the weights are to be, and for which of `Explanation.words`; see `ExplainedAlternative`.
        level: `simplex`, out of all distributions; `generatable`, out of those that some query of the head generates.
        run: Whether to run the model with them, to see what it then gives.
        seed: Of the search for the farthest.

    Raises:
        InputError: If there is no such row, word, goal or level, or nothing can be said of them.
    """
    read = read_words(tokenizer, text, text_pair)
    _check_goal(goal, word, len(read.words))
    if level not in _LEVELS:
        raise InputError(f"level is {level}: give {' or '.join(_LEVELS)}")
    if row < 0 or layer < 0:
        raise InputError(f"layer is {layer} and row is {row}: count both from 0")
    inputs = encode_texts(model, tokenizer, [text], None if text_pair is None else [text_pair], None)
    with threads_for(model):
        # All of it at once: the model has to have come to its end before it runs again.
        (captured,) = capture_inputs(model, inputs, rows=row + 1, layers=[layer], heads=[head])
        one = _row(captured, read, row, Level(level))
        found = find_alternative(
            one, word_groups(read, captured.sink), goal, word, Level(level), sink=captured.sink, seed=seed
        )
        if not run:
            return found
        tokens = len(read.tokens)
        return run_alternatives(
            model,
            inputs,
            [found],
            layer=captured.layer,
            head=head,
            row=row,
            weights=one.weights[:tokens].cpu().numpy(),
            sink=float(one.weights[-1]) if captured.sink else None,
        )[0]


def _check_goal(goal: str, word: int | None, words: int) -> None:
    if goal not in ("farthest", "favour", "avoid"):
        raise InputError(f"goal is {goal}: give farthest, favour or avoid")
    if goal == "farthest" and word is not None:
        raise InputError(f"word is {word}, and the goal farthest is about no word: give favour or avoid")
    if goal != "farthest" and word is None:
        raise InputError(f"there is no word to {goal}: give its number, counted from 0")
    if word is not None and not 0 <= word < words:
        raise InputError(f"there is no word {word}: the text has {words}, counted from 0")


def _row(captured: CapturedLayer, read: ReadText, row: int, level: Level) -> AttentionHead:
    """The row that is asked about, of a layer with one head.

    Raises:
        InputError: If there is none, or nothing can be said of it.
    """
    where = f"layer {captured.layer}"
    if captured.heads is None:
        raise InputError(f"{where}: {next(iter(captured.refused.values()))}")
    if captured.kind == "decoder" or attends_elsewhere(captured, len(read.tokens)):
        raise InputError(f"{where} does not attend to the text's tokens: give another layer")
    if level not in captured.levels:
        raise InputError(f"{where} says nothing at the level {level}: {captured.note}")
    rows = captured.rows[0].tolist()
    if row not in rows:
        raise InputError(f"there is no row {row} in {where}: it has {len(rows)}, counted from 0")
    return captured.heads[0, 0, rows.index(row)]
