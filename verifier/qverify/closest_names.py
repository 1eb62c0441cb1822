"""Suggests known names for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message with the known name that was probably meant; "" if none is near."""
    near = closest_names(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


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
