"""The versions that both ends of a farm must share: tasks and results are read by the code that wrote them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version

from qverify import __version__


def own_versions() -> dict[str, str]:
    """Returns the versions of this end."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"qverify": __version__, "Python": python, "distributed": version("distributed")}


def difference(theirs: Mapping[str, object], who: str) -> str:
    """Returns in which versions the other end differs from this one, "" in none. who: the other end."""
    ours = own_versions()
    differing = [
        f"{name} {theirs.get(name, 'unknown')} there, {mine} here"
        for name, mine in ours.items()
        if theirs.get(name) != mine
    ]
    return f"{who} has other versions: {'; '.join(differing)}; install the same on both" if differing else ""
