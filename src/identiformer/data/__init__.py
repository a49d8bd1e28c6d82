"""Sources of labelled texts: reading, validation, splits.

Importing this is cheap: `datasets` and `pyarrow` are imported when something is loaded.
"""

from identiformer.data.docstrings import Docstring, generate_docstrings
from identiformer.data.labels import check_labels, encode_labels, label_names
from identiformer.data.reviews import Review, generate_reviews
from identiformer.data.sources import files_of, load_source
from identiformer.data.splits import split_data
from identiformer.data.types import Columns, TextData

__all__ = [
    "Columns",
    "Docstring",
    "Review",
    "TextData",
    "check_labels",
    "encode_labels",
    "files_of",
    "generate_docstrings",
    "generate_reviews",
    "label_names",
    "load_source",
    "split_data",
]
