"""A model on a local page and behind JSON endpoints. Needs the extra `serve`."""
