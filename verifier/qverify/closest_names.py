"""Finds the names that a misspelt one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns at most `most` of the known names: those that contain `name`, otherwise those spelt alike."""
    names = list(known)
    return [n for n in names if name in n][:most] or difflib.get_close_matches(name, names, most, 0.5)
