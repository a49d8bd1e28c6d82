"""Pages that show explanations: whole HTML documents that need nothing but themselves."""
