"""Numbers with their nouns in the singular or plural."""

from __future__ import annotations


def count(number: int, noun: str, one: str = "", more: str = "") -> str:
    """Returns `1 frame` or `3 frames`; count(n, "element", "is", "are") adds the verb: `1 element is`, `3 elements
    are`. noun: one whose plural adds an s."""
    verb = one if number == 1 else more
    return f"{number} {noun}{'' if number == 1 else 's'}{' ' if verb else ''}{verb}"
