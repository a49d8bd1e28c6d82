"""The models whose values carry keys: those of the families, with wider values and output projections."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.auto_factory import _BaseAutoModelClass

from identiformer.retrofitting.attention import STYLES, BertLike
from identiformer.retrofitting.configurations import CONFIGURATIONS
from identiformer.retrofitting.families import FAMILIES, Family, Site, sites

# The tasks that an encoder is used for.
AUTO_CLASSES: tuple[type[_BaseAutoModelClass], ...] = (
    modeling_auto.AutoModel,
    modeling_auto.AutoModelForSequenceClassification,
    modeling_auto.AutoModelForTokenClassification,
    modeling_auto.AutoModelForQuestionAnswering,
    modeling_auto.AutoModelForMultipleChoice,
    modeling_auto.AutoModelForMaskedLM,
)

#: From each class of the families' models to the one whose values carry keys.
CARRYING_MODELS: dict[type[PreTrainedModel], type[PreTrainedModel]] = {}

#: The attention of each family, by its model type, with values that carry keys.
CARRYING_ATTENTION: dict[str, type[nn.Module]] = {}


def widen(site: Site) -> None:
    """Let the values of a site carry its keys, and its output projection take them."""
    # Its submodules and their order of initialisation stay as the family has them; only forward is another.
    site.attention.__class__ = CARRYING_ATTENTION[site.family.model_type]
    narrow = site.output
    # The values of the families have the size of their keys.
    wide = nn.Linear(2 * narrow.in_features, narrow.out_features, bias=narrow.bias is not None)
    site.replace_output(wide.to(narrow.weight))


def _carrying_attention(family: Family) -> type[nn.Module]:
    """The family's attention with another forward, `CarryingBertSelfAttention` for `BertSelfAttention`."""
    base = family.class_of(family.attention_class)
    name = f"Carrying{base.__name__}"
    members = {"__module__": __name__, "__qualname__": name, "__doc__": base.__doc__, "family": family}
    return type(name, (STYLES.get(family.model_type, BertLike), base), members)


def _carrying(base: type[PreTrainedModel], family: Family) -> type[PreTrainedModel]:
    """A subclass of a family's model, `IdentiformerBertModel` for `BertModel`."""
    name = f"Identiformer{base.__name__}"

    def __init__(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, config, *args, **kwargs)
        for site in sites(self, family):
            site.attention.config = config  # MPNet's has none of its own
            widen(site)
        self.post_init()  # initial weights for what is new

    members: dict[str, Any] = {
        "__module__": __name__,
        "__qualname__": name,
        "__doc__": f"`{base.__name__}` whose values carry its keys (see `retrofit`).",
        "__init__": __init__,
        "config_class": CONFIGURATIONS[family.model_type],
        "_supports_attention_backend": True,
        "_supports_flash_attn": False,  # its kernels want values of the size of the keys
    }
    return type(name, (base,), members)


for _family in FAMILIES.values():
    _config = CONFIGURATIONS[_family.model_type]
    AutoConfig.register(_family.carrying_type, _config, exist_ok=True)
    _attention = _carrying_attention(_family)
    CARRYING_ATTENTION[_family.model_type] = globals()[_attention.__name__] = _attention
    for _auto in AUTO_CLASSES:
        _base: Any = _auto._model_mapping[_family.config_class]  # pyright: ignore[reportOptionalSubscript]
        if _base not in CARRYING_MODELS:
            CARRYING_MODELS[_base] = _carrying(_base, _family)
        _model = CARRYING_MODELS[_base]
        globals()[_model.__name__] = _model  # where pickle looks for it
        _auto.register(_config, _model, exist_ok=True)
