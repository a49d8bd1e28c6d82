"""The Auto classes know identiformer, whatever part of transformers is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

OURS = "import identiformer"
ASK = """
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=11)
for kind in ("identiformer", "identiformer_bert"):
    config = AutoConfig.for_model(kind, **sizes)
    for auto in (AutoModel, AutoModelForSequenceClassification):
        print(type(auto.from_config(config)).__name__)
"""
NAMES = [
    "IdentiformerModel",
    "IdentiformerForSequenceClassification",
    "IdentiformerBertModel",
    "IdentiformerBertForSequenceClassification",
]


def run(*lines: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "theirs",
    [
        # Each of these comes to AutoConfig with other modules half imported.
        "import transformers.models.bert.modeling_bert",
        "import transformers.modeling_utils",
        "from transformers import AutoTokenizer, pipeline",
        "from transformers import BertConfig; BertConfig()",
    ],
)
def test_models_are_known_in_either_order(theirs: str):
    assert run(OURS, theirs, ASK) == NAMES
    assert run(theirs, OURS, ASK) == NAMES


def test_importing_identiformer_imports_nothing_heavy():
    modules = run(OURS, "import sys", "print(*{name.split('.')[0] for name in sys.modules})")
    assert not {"torch", "transformers", "datasets"} & set(modules)


@pytest.mark.slow
def test_a_configuration_made_directly_brings_its_models():
    made = run(
        OURS,
        "from transformers import AutoModel",
        "config = identiformer.IdentiformerConfig(hidden_size=8, vocab_size=11)",
        "print(type(AutoModel.from_config(config)).__name__)",
    )
    assert made == ["IdentiformerModel"]
