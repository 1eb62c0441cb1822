"""Numbers with their nouns, as a person reads them."""

from __future__ import annotations


def count(number: int, noun: str, one: str = "", more: str = "") -> str:
    """`1 frame`, `3 frames`; with a verb for each number: count(n, "element", "is", "are") is `1 element is`, `3 elements are`.
    noun: takes an s in the plural."""
    verb = one if number == 1 else more
    return f"{number} {noun}{'' if number == 1 else 's'}{' ' if verb else ''}{verb}"
