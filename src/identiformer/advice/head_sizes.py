"""The sizes of attention heads, and for which lengths of text they can be identifiable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class HeadSizes:
    """The sizes of a model's heads, those of its last layer.

    Args:
        key_size: `d_k`, columns of a head's keys.
        value_size: `d_v`, columns of a head's values, without the keys where they are carried.
        hidden_size: `d_e`, the width of the layer.
        carries_keys: Whether the values carry the keys.
        normalised: Whether the layer's input comes out of a layer normalisation. Its outputs lie on a
            hyperplane of `d_e - 1` dimensions, and so no values made of them span more.
        knows_positions: Whether the tokens of a text differ by their positions, equal ones too.
    """

    key_size: int
    value_size: int
    hidden_size: int
    carries_keys: bool = False
    normalised: bool = False
    knows_positions: bool = True

    @property
    def value_rank(self) -> int:
        """The most dimensions that what a unit of weight adds to the output (`T = V D`) can differ in."""
        columns = self.value_size + (self.key_size if self.carries_keys else 0)
        return min(columns, self.hidden_size - (1 if self.normalised else 0))

    @property
    def identifiable_length(self) -> int:
        """The most tokens with which a text is identifiable on the simplex: `n - rank([T 1])` is 0.

        With so many, almost every text is; without positions, those in which no token occurs again.
        """
        return self.value_rank + 1

    @property
    def generatable(self) -> Literal["global", "local", "none"]:
        """The verdict at `generatable` for texts longer than that, of any length.

        The weights that some query gives move in at most `d_k` directions, and the output shows them all if it has
        as many; with carried keys it fixes the weights outright (IDENTIFIABILITY.md, "One head, one query row").
        """
        if self.carries_keys:
            return "global"
        return "local" if self.key_size <= self.value_rank else "none"


def head_sizes(config: PreTrainedConfig) -> HeadSizes | None:
    """The sizes of a model's heads as its configuration has them; `None` where it does not say.

    Args:
        config: Of any transformers model.
    """
    if config.model_type == "identiformer":
        return HeadSizes(
            key_size=config.key_size,
            value_size=config.value_size,
            hidden_size=config.hidden_size,
            carries_keys=config.values_carry_keys,
            normalised=config.num_hidden_layers > 1,
            knows_positions=config.position_embedding != "none",
        )
    from identiformer.retrofitting.families import CARRYING

    text = config.get_text_config()
    hidden_size, heads = getattr(text, "hidden_size", None), getattr(text, "num_attention_heads", None)
    if not isinstance(hidden_size, int) or not isinstance(heads, int) or heads < 1:
        return None

    def first(*names: str) -> int:
        given = (getattr(text, name, None) for name in names)
        return next((size for size in given if isinstance(size, int)), hidden_size // heads)

    return HeadSizes(
        # Of keys that are partly rotary, head_dim is the rotary part alone.
        key_size=first("qk_head_dim", "head_dim"),
        value_size=first("v_head_dim", "head_dim"),
        hidden_size=hidden_size,
        carries_keys=config.model_type in CARRYING,
    )
