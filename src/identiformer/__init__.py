"""Text classifiers whose attention is identifiable, and audits that tell where attention is not."""

__version__ = "0.1.0"
