"""Lines on what the recorded values alone show (`findings` of a report)."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.plural import count
from qverify.report.facts import Finding

MAX_SHOWN = 6  # lines on a terminal


def finding_lines(findings: Sequence[Finding], most: int | None = MAX_SHOWN) -> list[str]:
    """Returns one line for each finding, those of the same words once for all frames. most: number of lines, None for
    all."""
    frames: dict[str, list[int]] = {}
    for finding in findings:
        frames.setdefault(finding.text, []).extend([] if finding.frame is None else [finding.frame])
    lines = [f"found: {text}{_name_frames(numbers)}" for text, numbers in frames.items()]
    if most is None or len(lines) <= most:
        return lines
    return [*lines[:most], f"found: {count(len(lines) - most, 'more line')}, in the JSON report"]


def _name_frames(numbers: list[int]) -> str:
    distinct = sorted(set(numbers))
    return f" (in {count(len(distinct), 'frame')}, the first is {distinct[0]})" if len(distinct) > 1 else ""
