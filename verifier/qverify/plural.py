"""Formats numbers with their nouns in the singular or plural."""

from __future__ import annotations

import re

NOUNS = [
    "bits",
    "bytes",
    "channels",
    "columns",
    "elements",
    "indices",
    "items",
    "entries",
    "pixels",
    "places",
    "planes",
    "positions",
    "rows",
    "summands",
    "terms",
    "times",
    "windows",
]
SINGULARS = {"indices": "index", "entries": "entry"}  # all others lose their s
VERBS = {"are": "is", "count": "counts", "repeat": "repeats", "start": "starts"}
ONE_OF_MANY = re.compile(rf"(?<![\w./^*+-])1 (batch )?({'|'.join(NOUNS)})\b( \([^()]*\))?(?: ({'|'.join(VERBS)})\b)?")

ORDINAL = re.compile(r"\b((?:\d*[02-9])?[123])th\b")


def count(number: int, noun: str, one: str = "", more: str = "") -> str:
    """Returns `1 frame` or `3 frames`; count(n, "element", "is", "are") adds a verb: `1 element is`, `3 elements are`.
    noun: in the singular; its plural must be formed by adding an s. one, more: the verb in the singular and plural."""
    verb = one if number == 1 else more
    return f"{number} {noun}{'' if number == 1 else 's'}{' ' if verb else ''}{verb}"


def inflect_after_numbers(text: str) -> str:
    """Returns the text with nouns, and verbs right after them, in the singular where their number is 1, and with
    ordinals such as 2nd instead of 2th."""
    return ORDINAL.sub(_ordinal, ONE_OF_MANY.sub(_in_singular, text))


def _in_singular(found: re.Match[str]) -> str:
    noun = SINGULARS.get(found[2], found[2][:-1])
    verb = f" {VERBS[found[4]]}" if found[4] else ""
    return f"1 {found[1] or ''}{noun}{found[3] or ''}{verb}"


def _ordinal(found: re.Match[str]) -> str:
    return found[1] + {"1": "st", "2": "nd", "3": "rd"}[found[1][-1]]
