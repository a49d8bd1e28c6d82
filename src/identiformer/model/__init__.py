"""The classifier: a transformers model."""
