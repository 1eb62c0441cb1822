"""Suggests known names for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Returns at most `most` of the known names: those that contain `name`; if there are none, those with a similar
    spelling; if there are none either, those with a similar beginning."""
    names = list(known)
    similar = [n for n in names if name in n][:most] or difflib.get_close_matches(name, names, most, 0.5)
    if similar or not name:
        return similar
    beginnings = {n: n[: len(name)] for n in names}
    similar_beginnings = difflib.get_close_matches(name, set(beginnings.values()), most, 0.75)
    return [n for n in names if beginnings[n] in similar_beginnings][:most]
