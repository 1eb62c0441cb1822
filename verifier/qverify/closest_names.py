"""Finds the names that a misspelt one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns at most `most` of the known names: those that contain `name`, otherwise those spelt alike, otherwise those
    that begin alike."""
    names = list(known)
    alike = [n for n in names if name in n][:most] or difflib.get_close_matches(name, names, most, 0.5)
    if alike or not name:
        return alike
    heads = {n: n[: len(name)] for n in names}
    near = difflib.get_close_matches(name, set(heads.values()), most, 0.75)
    return [n for n in names if heads[n] in near][:most]
