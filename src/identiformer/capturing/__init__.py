"""From any transformers model to the attention heads that computed its output.

The only package that knows how other people's models are built.
"""

from identiformer.capturing.inputs import capture_inputs
from identiformer.capturing.layer import CapturedLayer
from identiformer.capturing.rows import Rows
from identiformer.capturing.substitution import run_with_weights
from identiformer.capturing.texts import capture, encode_texts

__all__ = ["CapturedLayer", "Rows", "capture", "capture_inputs", "encode_texts", "run_with_weights"]
