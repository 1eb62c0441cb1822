"""Formats a number with its noun in the singular or plural."""

from __future__ import annotations


def count(number: int, noun: str, one: str = "", more: str = "") -> str:
    """Returns `1 frame` or `3 frames`; count(n, "element", "is", "are") adds a verb: `1 element is`, `3 elements are`.
    noun: in the singular; its plural must be formed by adding an s. one, more: the verb in the singular and plural."""
    verb = one if number == 1 else more
    return f"{number} {noun}{'' if number == 1 else 's'}{' ' if verb else ''}{verb}"
