"""Sources of labelled texts: reading, validation, splits."""
