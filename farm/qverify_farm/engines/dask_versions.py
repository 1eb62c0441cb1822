"""The versions that must be equal on both ends of a farm, since tasks and results have no format version of their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version

from qverify import __version__


def own_versions() -> dict[str, str]:
    """Returns the versions of this end."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"qverify": __version__, "Python": python, "distributed": version("distributed")}


def describe_difference(theirs: Mapping[str, object], other_end: str) -> str:
    """Returns a message that names the versions in which the other end differs from this one, or "" if all are equal.
    other_end: what the message calls the other end."""
    ours = own_versions()
    differing = [
        f"{name} {theirs.get(name, 'unknown')} there, {mine} here"
        for name, mine in ours.items()
        if theirs.get(name) != mine
    ]
    return f"{other_end} has other versions: {'; '.join(differing)}; install the same on both" if differing else ""
