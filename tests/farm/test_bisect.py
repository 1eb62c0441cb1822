"""The search for the first bad version: correct for every position, with few runs; versions without a verdict are skipped and
reported."""

from __future__ import annotations

import pytest
from qverify_farm.suites.bisect import Bisection, bisect

VERSIONS = [f"1.{n}" for n in range(20)]


def search(first_bad: int, unclear: tuple[int, ...] = (), versions: list[str] = VERSIONS) -> Bisection:
    def judge(version: str) -> str:
        at = versions.index(version)
        return "INCONCLUSIVE" if at in unclear else "FAILED" if at >= first_bad else "PASSED"

    return bisect(versions, judge)


@pytest.mark.parametrize("first_bad", range(1, 20))
def test_the_first_bad_version_is_found_with_few_runs(first_bad: int) -> None:
    found = search(first_bad)
    assert found.is_found and (found.good, found.bad, found.between) == (f"1.{first_bad - 1}", f"1.{first_bad}", [])
    assert len(found.judged) <= 7 and found.sentence == f"the first bad version is {found.bad}; {found.good} is good"


def test_versions_without_a_verdict_are_skipped_and_reported() -> None:
    found = search(10, unclear=(9, 0, 19))
    assert (found.good, found.bad, found.between) == ("1.8", "1.10", ["1.9"])
    assert found.sentence == "the first bad version is 1.10 or one of 1.9, which gave no verdict; 1.8 is good"
    apart = search(5, unclear=(9, 14))
    assert (apart.good, apart.bad, apart.between) == ("1.4", "1.5", [])


@pytest.mark.parametrize(
    ("first_bad", "unclear", "words"),
    [
        (99, (), "not found: the newest version with a verdict, 1.19, PASSED"),
        (0, (), "not found: the oldest version with a verdict, 1.0, FAILED; add older ones"),
        (0, (0,), "not found: the oldest version with a verdict, 1.1, FAILED; add older ones; no verdict: 1.0"),
        (5, tuple(range(20)), "not found; no verdict: 1.19"),
    ],
)
def test_missing_good_or_bad_end_is_reported(first_bad: int, unclear: tuple[int, ...], words: str) -> None:
    found = search(first_bad, unclear)
    assert not found.is_found and found.sentence.startswith(words)


def test_a_list_in_the_wrong_order_is_reported() -> None:
    found = bisect(["2.0", "1.0"], {"2.0": "FAILED", "1.0": "PASSED"}.__getitem__)
    assert not found.is_found and "wanted the oldest version first" in found.sentence
