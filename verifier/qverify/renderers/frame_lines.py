"""Many frames for people: the worst first, and one verdict line a pair over all of them."""

from __future__ import annotations

from typing import Any

from qverify.printable import visible
from qverify.renderers.blamed import blame_line
from qverify.renderers.verdict_lines import common_weakenings, line_over
from qverify.report.document import Pair, Report, worst
from qverify.report.frame_rank import frame_rank

SHOWN = 10


def line(row: dict[str, Any]) -> str:
    """One frame, as it comes."""
    row = visible(row)
    return f"frame {row['frame']} {row['source']}: {row['verdict']}" + (f" ({row['why']})" if row["why"] else "")


def render(report: Report) -> str:
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
    pairs: dict[tuple[str, str], list[Any]] = {}
    for pair in report.pairs:
        pairs.setdefault((pair.a, pair.b), []).append(pair)
    lines = [_over(found, report) for found in pairs.values()]
    return "\n".join(parts) + "\n\n" + "\n".join(lines)


def _over(pairs: list[Pair], report: Report) -> str:
    """A frame that could not be prepared leaves no PASSED over all of them."""
    missing = len(report.frames) - len({p.frame for p in pairs})
    verdict = worst([p.verdict for p in pairs])
    same = [p.frame for p in pairs if p.verdict == verdict]
    counted = (
        f"{len(pairs)} frames" if verdict == "PASSED" else f"{len(same)} of {len(pairs)} frames, the first is {same[0]}"
    )
    facts = [counted] + ([f"{missing} frames could not be prepared"] if missing else [])
    return line_over(pairs, facts, common_weakenings(report), "INCONCLUSIVE" if missing else "PASSED")
