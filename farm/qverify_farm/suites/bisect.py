"""The first bad version of a list, by binary search; a version that gives no verdict is skipped, and said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qverify_farm.store.states import FAILED, PASSED

Judge = Callable[[str], str]


@dataclass(slots=True)
class Bisection:
    """good: the newest version known to be good, "" where even the oldest is bad. bad: the oldest known to be bad, "" where
    even the newest is good. between: versions between the two that gave no verdict: one of them may be the first bad one.
    judged: verdicts in the order they were found. searched: between a good and a bad version."""

    good: str = ""
    bad: str = ""
    between: list[str] = field(default_factory=list)
    judged: dict[str, str] = field(default_factory=dict)
    searched: bool = False

    @property
    def is_found(self) -> bool:
        """Whether there is a good version with a bad one after it."""
        return bool(self.good and self.bad and self.searched)

    @property
    def sentence(self) -> str:
        """What was found, one line."""
        unclear = [version for version, verdict in self.judged.items() if verdict not in (PASSED, FAILED)]
        said = f"; no verdict: {', '.join(unclear)}" if unclear else ""
        if self.is_found and self.between:
            others = ", ".join(self.between)
            return f"the first bad version is {self.bad} or one of {others}, which gave no verdict; {self.good} is good"
        if self.is_found:
            return f"the first bad version is {self.bad}; {self.good} is good{said}"
        if self.good and self.bad:
            return f"not found: the old {self.bad} FAILED and the new {self.good} PASSED; wanted the oldest version first{said}"
        if self.bad:
            return f"not found: the oldest version with a verdict, {self.bad}, FAILED; add older ones{said}"
        return (
            f"not found: the newest version with a verdict, {self.good}, PASSED{said}"
            if self.good
            else f"not found{said}"
        )


def bisect(versions: Sequence[str], judge: Judge) -> Bisection:
    """Returns the first bad of these versions, the oldest first. judge: gives a version's verdict, each at most once. The
    two ends are judged first: without a good and a bad one there is nothing to search between."""
    found = Bisection()

    def verdict(at: int) -> str:
        version = versions[at]
        if version not in found.judged:
            found.judged[version] = judge(version)
        return found.judged[version]

    newest_first = range(len(versions) - 1, -1, -1)
    high = next((at for at in newest_first if verdict(at) in (PASSED, FAILED)), None)
    low = next((at for at in range(len(versions)) if verdict(at) in (PASSED, FAILED)), None)
    if high is None or low is None:
        return found
    found.good = versions[high] if verdict(high) == PASSED else versions[low] if verdict(low) == PASSED else ""
    found.bad = versions[low] if verdict(low) == FAILED else versions[high] if verdict(high) == FAILED else ""
    if verdict(high) == PASSED or verdict(low) == FAILED:
        return found
    found.searched = True
    while (at := _next(versions, found, low, high)) is not None:
        if verdict(at) == PASSED:
            low = at
        elif found.judged[versions[at]] == FAILED:
            high = at
    found.good, found.bad, found.between = versions[low], versions[high], list(versions[low + 1 : high])
    return found


def _next(versions: Sequence[str], found: Bisection, low: int, high: int) -> int | None:
    """Returns the version nearest to the middle that was not judged; None where there is none."""
    middle = (low + high) / 2
    left = [at for at in range(low + 1, high) if versions[at] not in found.judged]
    return min(left, key=lambda at: abs(at - middle), default=None)
