"""Finds the first bad version in a list by binary search. A version without a verdict is skipped and reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qverify_farm.store.states import FAILED, PASSED

Judge = Callable[[str], str]


@dataclass(slots=True)
class Bisection:
    """The result of a search.

    Attributes:
        good: The newest version known to be good, or "" if even the oldest is bad.
        bad: The oldest version known to be bad, or "" if even the newest is good.
        between: Versions between the two without a verdict; one of them may be the first bad one.
        judged: The verdicts by version, in the order in which they were found.
        searched: Whether there was a good version older than a bad one, so that the search took place.
    """

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
        """The result as one line."""
        unclear = [version for version, verdict in self.judged.items() if verdict not in (PASSED, FAILED)]
        no_verdict_note = f"; no verdict: {', '.join(unclear)}" if unclear else ""
        if self.is_found and self.between:
            candidates = ", ".join(self.between)
            return f"the first bad version is {self.bad} or one of {candidates}, which gave no verdict; {self.good} is good"
        if self.is_found:
            return f"the first bad version is {self.bad}; {self.good} is good{no_verdict_note}"
        if self.good and self.bad:
            return f"not found: the old {self.bad} FAILED and the new {self.good} PASSED; wanted the oldest version first{no_verdict_note}"
        if self.bad:
            return f"not found: the oldest version with a verdict, {self.bad}, FAILED; add older ones{no_verdict_note}"
        return (
            f"not found: the newest version with a verdict, {self.good}, PASSED{no_verdict_note}"
            if self.good
            else f"not found{no_verdict_note}"
        )


def bisect(versions: Sequence[str], judge: Judge) -> Bisection:
    """Searches the first bad version. versions: the oldest first. judge: returns the verdict of a version; it is called at
    most once for each. The two ends are judged first, since the search needs a good and a bad version."""
    bisection = Bisection()

    def verdict(at: int) -> str:
        version = versions[at]
        if version not in bisection.judged:
            bisection.judged[version] = judge(version)
        return bisection.judged[version]

    newest_first = range(len(versions) - 1, -1, -1)
    high = next((at for at in newest_first if verdict(at) in (PASSED, FAILED)), None)
    low = next((at for at in range(len(versions)) if verdict(at) in (PASSED, FAILED)), None)
    if high is None or low is None:
        return bisection
    bisection.good = versions[high] if verdict(high) == PASSED else versions[low] if verdict(low) == PASSED else ""
    bisection.bad = versions[low] if verdict(low) == FAILED else versions[high] if verdict(high) == FAILED else ""
    if verdict(high) == PASSED or verdict(low) == FAILED:
        return bisection
    bisection.searched = True
    while (at := _next_to_judge(versions, bisection, low, high)) is not None:
        if verdict(at) == PASSED:
            low = at
        elif bisection.judged[versions[at]] == FAILED:
            high = at
    bisection.good, bisection.bad, bisection.between = versions[low], versions[high], list(versions[low + 1 : high])
    return bisection


def _next_to_judge(versions: Sequence[str], bisection: Bisection, low: int, high: int) -> int | None:
    """Returns the index of the unjudged version nearest to the middle, or None if all are judged."""
    middle = (low + high) / 2
    unjudged = [at for at in range(low + 1, high) if versions[at] not in bisection.judged]
    return min(unjudged, key=lambda at: abs(at - middle), default=None)
