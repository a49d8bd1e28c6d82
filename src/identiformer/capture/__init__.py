"""From any transformers model to the attention heads that computed its output.

The only package that knows how other people's models are built.
"""

from identiformer.capture.inputs import capture_inputs
from identiformer.capture.layer import CapturedLayer
from identiformer.capture.rows import Rows
from identiformer.capture.substitution import run_with_weights
from identiformer.capture.texts import capture, encode_texts

__all__ = ["CapturedLayer", "Rows", "capture", "capture_inputs", "encode_texts", "run_with_weights"]
