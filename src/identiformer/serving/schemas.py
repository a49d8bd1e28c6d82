"""What the endpoints take and give. The OpenAPI document is made of these, and tests hold every answer against it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[int, Field(strict=True)]
Chosen = Annotated[list[Number], Field(min_length=1, max_length=1000)]
Several = Annotated[list[str], Field(min_length=1)]


class _Exact(BaseModel):
    """Fields that are not known are refused: a name with a slip in it must not be taken for one that was left out."""

    model_config = ConfigDict(extra="forbid")


# Requests


class PredictRequest(_Exact):
    """Texts to label."""

    text: str | Several = Field(description="A text, or a list of texts.", examples=["The soup was cold."])
    text_pair: str | Several | None = Field(
        default=None,
        description="The pair of each text, for a model trained on pairs: of the form of `text`.",
    )


class ExplainRequest(_Exact):
    """A text to explain."""

    text: str = Field(description="The text.", examples=["The soup was cold, but the music was good."])
    text_pair: str | None = Field(default=None, description="Its pair, for a model trained on pairs.")
    layers: Literal["all"] | Chosen | None = Field(
        default=None,
        description="Numbers of layers, from 0, or from the end where negative; `all`; the last one where null.",
    )
    heads: Chosen | None = Field(default=None, description="Numbers of heads of each layer; all where null.")
    rows: Literal["pooled", "all"] | Annotated[int, Field(strict=True, ge=1)] = Field(
        default="pooled",
        description="Query rows: `pooled`, the one that is classified; `all`; or how many from the first on.",
    )
    intervals: Annotated[bool, Field(strict=True)] = Field(
        default=True,
        description="Whether to compute bounds and possible tops, which take most of the time. Certificates are there "
        "without.",
    )


class AlternativeRequest(_Exact):
    """Other weights to look for, in one row of one head."""

    text: str = Field(description="The text.", examples=["The soup was cold, but the music was good."])
    text_pair: str | None = Field(default=None, description="Its pair, for a model trained on pairs.")
    layer: Number = Field(description="The layer's number, as an explanation has it.", examples=[0])
    head: Number = Field(ge=0, description="The head's number, as an explanation has it.", examples=[0])
    row: Number = Field(ge=0, description="The token whose row it is.", examples=[0])
    goal: Literal["farthest", "favour", "avoid"] = Field(
        description="Weights as far away as possible; more weight for a word; or less.", examples=["favour"]
    )
    word: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None,
        description="The word's number among the `words` of an explanation; null for `farthest`.",
        examples=[3],
    )
    level: Literal["simplex", "generatable"] = Field(
        default="simplex",
        description="Among all weights, or among those that some query of the head generates.",
    )


# Answers


class Fault(_Exact):
    """Why there is no answer."""

    error: str = Field(description="What is wrong, where, and how to mend it: one sentence.")


class Prediction(_Exact):
    """The label of one text."""

    row: int = Field(description="Which of the texts it is, from 1.")
    text: str
    text_pair: str | None = Field(default=None, description="Where there is one.")
    label: str
    probabilities: dict[str, float]
    truncated: bool = Field(description="Whether the model did not read the end of the text.")


class PredictAnswer(_Exact):
    """The labels of all texts, in their order."""

    predictions: list[Prediction]


class Token(_Exact):
    """A token and the characters that it stands for."""

    text: str
    start: int = Field(description="In characters of the text (`segment` 0) or of its pair (1).")
    end: int
    segment: int
    special: bool = Field(description="Whether it is a token of the model's and not of the text.")
    unknown: bool = Field(description="Whether the model takes it for any other unknown one.")


class Word(Token):
    """What a reader calls a word."""

    tokens: list[int] = Field(description="Which tokens it is made of.")


class Intervals(_Exact):
    """How far each weight could be off with the same output."""

    lower: list[float]
    upper: list[float]


class WordsOfHead(_Exact):
    """What is said of a head by word."""

    weights: list[float]
    effective: list[float]
    intervals: Intervals | None
    possible_tops: list[int] | None


class Level(_Exact):
    """The certificate of one level."""

    nullity: int = Field(description="Directions in which the weights could move with the same output.")
    margin: float
    verdict: Literal["global", "local", "none"]


class Alternative(_Exact):
    """Other weights of one row with the same output, or why there are none."""

    goal: Literal["farthest", "favour", "avoid"]
    word: int | None
    level: Literal["simplex", "generatable"]
    status: Literal["found", "unique", "not_found"]
    reason: str
    weights: list[float] | None = Field(description="By token.")
    distance: float | None = Field(description="Half the sum of all changes.")
    residual: float | None = Field(description="By how much the output of the head moves, relative to it.")
    output_change: float | None = Field(
        description="By how much the model's output moves when it runs with these weights; null: not run."
    )
    probabilities: dict[str, float] | None = Field(description="What the model then says; null: not run.")


class Head(_Exact):
    """One row of one head; lists by token line up with `tokens`, those of `words` with `words`."""

    layer: int
    head: int
    row: int
    kind: Literal["self", "cross"]
    weights: list[float]
    effective: list[float]
    intervals: Intervals | None = Field(description="Null: not asked for.")
    possible_tops: list[int] | None = Field(
        description="Tokens that carry the greatest weight in some row with the same output."
    )
    sink: float | None = Field(description="The weight that goes to no token, where the model has such.")
    words: WordsOfHead
    tied_tokens: int
    levels: dict[Literal["free", "simplex", "generatable"], Level]
    alternatives: list[Alternative] | None = Field(description="Null: /api/alternative gives them.")


class Refused(_Exact):
    """A head that cannot be explained."""

    layer: int
    head: int
    reason: str


class Note(_Exact):
    """What is unusual of a layer."""

    layer: int
    note: str


class Explanation(_Exact):
    """A prediction and the attention behind it: what `explain --json` writes, and fields for the token view."""

    text: str
    text_pair: str | None = Field(default=None, description="Where there is one.")
    prediction: str | None = Field(description="Null where the model chooses no label.")
    probabilities: dict[str, float]
    truncated: bool = Field(description="Whether the model did not read the end of the text.")
    tokens: list[Token]
    words: list[Word]
    heads: list[Head]
    refused: list[Refused]
    notes: list[Note]
    id: None = Field(description="Always null here: the text is of no data set.")
    label: None = Field(description="Always null here.")


class LayerAnswer(_Exact):
    """A layer that can be explained."""

    layer: int
    heads: list[int]


class LimitsAnswer(_Exact):
    """What may be asked at once."""

    body: int = Field(description="Bytes of a request's body.")
    characters: int = Field(description="Characters of a text.")
    texts: int = Field(description="Texts of a prediction.")
    tokens: int = Field(description="Tokens of a text that is explained.")
    weights: int = Field(description="Layers times heads times rows times tokens of an explanation.")
    waiting: int = Field(description="Requests that may wait.")
    seconds: float = Field(description="Seconds that an answer may take.")


class ModelAnswer(_Exact):
    """The model that is served."""

    model: str
    labels: list[str] = Field(description="Empty where it chooses no label.")
    takes_pair: bool | None = Field(description="Whether texts come with a pair; null: as you like.")
    pooled: bool = Field(description="Whether there is a row that alone is classified.")
    max_tokens: int = Field(description="Longer texts are truncated.")
    layers: list[LayerAnswer]
    limits: LimitsAnswer


class HealthAnswer(_Exact):
    """That the server is there."""

    status: Literal["ok"]
