"""The order of versions as people count: 1.9 before 1.10, 2.0-rc1 before 2.0."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(r"(\d+)|([A-Za-z]+)|([^0-9A-Za-z]+)")
_EARLY = {"dev": 0, "alpha": 1, "a": 1, "beta": 2, "b": 2, "pre": 3, "rc": 3}  # words of versions before the release


def natural(texts: tuple[str, ...]) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    """Returns a key by which versions are sorted as people count: 1.9 before 1.10, 2.0-rc1 before 2.0."""
    return tuple((*_natural_parts(text), (2, 0, "")) for text in texts)


def _natural_parts(text: str) -> Iterable[tuple[int, int, str]]:
    for number, word, other in _PART.findall(text):
        if number:
            yield (4, int(number[:18]), number)
        elif word:
            early = _EARLY.get(word.lower())
            yield (1, early, word) if early is not None else (5, 0, word)
        elif other.strip("-_. ~") or not other:
            yield (3, 0, other)
