"""What a capture gives: the heads of one attention layer for a batch of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from identiformer.identifiability import AttentionHead, Level

Kind = Literal["self", "decoder", "cross"]


@dataclass(frozen=True, eq=False)
class CapturedLayer:
    """The heads of one attention layer for a batch of texts.

    Args:
        layer: The layer's number: attention layers are counted from 0 in the order in which the model runs them.
            In an encoder-decoder the encoder comes first, and then, for each layer of the decoder, its own
            attention and that to the encoder.
        kind: `self`, where tokens attend to those of their own text; `decoder`, the same in the decoder of an
            encoder-decoder; `cross`, where tokens of the decoder attend to those of the encoder.
        heads: The heads that could be verified, with batch dimensions `[texts, heads, rows]`; `None` where there
            is none.
        head_numbers: The number of each of `heads` in its layer, from 0.
        refused: For each head wanted that is not among `heads`, its number and the reason in one line.
        rows: The position of each query row, `[texts, rows]`; -1 where a text has fewer rows than others of the
            batch. There, `heads` repeat the text's first row.
        texts: Which texts these are: their places in what was given to `capture`, from 0.
        levels: The levels at which certificates of these heads hold. All of them, but for logits that are no
            linear function of the query (`note` says so): there, nothing may be said at `generatable`.
        sink: Whether the last token of `heads` is none of the text's, but an attention sink: a logit beside those
            of the tokens whose share of the weight is lost. It is a token with key and value 0.
        note: What is unusual of these heads, in one line; empty where nothing is.
    """

    layer: int
    kind: Kind
    heads: AttentionHead | None
    head_numbers: tuple[int, ...]
    refused: Mapping[int, str]
    rows: Tensor
    texts: tuple[int, ...]
    levels: tuple[Level, ...] = tuple(Level)
    sink: bool = False
    note: str = ""

    @property
    def simplex_length(self) -> int | None:
        """The most tokens of a row that can be identifiable on the simplex: `min(d_v, d_e) + 1`."""
        if self.heads is None:
            return None
        values, projection = self.heads.values, self.heads.output_projection
        columns = [values.shape[-1]] if projection is None else [values.shape[-1], projection.shape[-1]]
        return min(columns) + 1
