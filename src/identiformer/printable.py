"""Text of other people's, made fit for a terminal."""

from __future__ import annotations

import unicodedata


def printable(text: str, keep: str = "") -> str:
    """Write out the characters that could steer a terminal, or that nobody sees, as escapes.

    Spaces of every kind stay, and the joiners of emoji and of some scripts.

    Args:
        text: Any text.
        keep: Further characters to keep, as line ends.
    """
    return "".join(c if _harmless(c) or c in keep else c.encode("unicode_escape").decode() for c in text)


def _harmless(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs" or character in "\u200c\u200d"
