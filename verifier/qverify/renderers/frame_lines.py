"""Renders many frames for people: the worst first, and one verdict line per pair over all of them."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.blamed import blame_line
from qverify.renderers.verdict_lines import common_weakenings, line_over
from qverify.report.document import Pair, Report, worst
from qverify.report.frame_rank import frame_rank

SHOWN = 10


def line(row: dict[str, Any]) -> str:
    """Returns one frame's line, printed as soon as the frame is judged."""
    row = visible(row)
    return f"frame {row['frame']} {row['source']}: {row['verdict']}" + (f" ({row['why']})" if row["why"] else "")


def render(report: Report) -> str:
    """Returns the summary of all frames, blame, and the verdict lines."""
    report = visible(report)
    ran = [row for row in report.frames if row["verdict"] != "NOT RUN"]
    bad = sorted((r for r in report.frames if r["verdict"] != "PASSED"), key=frame_rank)
    parts = [f"frames: {len(ran)} of {len(report.frames)} ran, {sum(r['verdict'] == 'PASSED' for r in ran)} PASSED"]
    apart = [row for row in ran if row["max_abs"]]
    if not bad and apart:
        most = min(apart, key=frame_rank)
        parts.append(f"largest difference: {most['max_abs']:g} in frame {most['frame']} {most['source']}")
    if bad:
        parts += ["worst frames:", *(f"  {line(row)}" for row in bad[:SHOWN])]
    if report.blame is not None:
        parts.append(blame_line(report.blame))
    by_sides: dict[tuple[str, str], list[Any]] = {}
    for pair in report.pairs:
        by_sides.setdefault((pair.a, pair.b), []).append(pair)
    lines = [_line_over(pairs, report) for pairs in by_sides.values()]
    return "\n".join(parts) + "\n\n" + "\n".join(lines)


def _line_over(pairs: list[Pair], report: Report) -> str:
    """Returns the verdict line over all frames; not PASSED where a frame could not be prepared."""
    missing = len(report.frames) - len({p.frame for p in pairs})
    verdict = worst([p.verdict for p in pairs])
    same = [p.frame for p in pairs if p.verdict == verdict]
    frames = count(len(pairs), "frame")
    facts = [frames if verdict == "PASSED" else f"{len(same)} of {frames}, the first is {same[0]}"]
    facts += [f"{count(missing, 'frame')} could not be prepared"] if missing else []
    return line_over(pairs, facts, common_weakenings(report), "INCONCLUSIVE" if missing else "PASSED")
