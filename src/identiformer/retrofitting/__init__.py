"""Pretrained encoders whose values are made to carry their keys, so that their attention is identifiable."""
