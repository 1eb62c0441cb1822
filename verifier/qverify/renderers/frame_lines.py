"""Renders many frames for people: the worst first, and one verdict line per pair over all of them."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import drafts, heading, task_lines
from qverify.renderers.blamed import blame_line
from qverify.renderers.terminal import describe_repeat
from qverify.renderers.text_view import TextView
from qverify.renderers.verdict_lines import common_weakenings, line_over
from qverify.report.document import Pair, Report, Verdict, worst
from qverify.report.frame_rank import frame_rank
from qverify.report.frames_left_out import describe_left_out

SHOWN = 10
PLAIN = TextView()
LEFT = {"NOT RUN": "left out", "FAILED": "FAILED", "INCONCLUSIVE": "INCONCLUSIVE"}


def line(row: dict[str, Any], view: TextView = PLAIN) -> str:
    """Returns one frame's line, printed as soon as the frame is judged."""
    row = visible(row)
    text = f"frame {row['frame']} {row['source']}: {row['verdict']}" + (f" ({row['why']})" if row["why"] else "")
    return view.paint(view.wrap(text), row["verdict"] if row["verdict"] != "PASSED" else "")


def progress(verdicts: list[str], total: int) -> str:
    """Returns how far a run of frames is, such as `7 of 21, 3 left out`. verdicts: of those that are done. total: 0 where
    it is not known."""
    parts = [f"{len(verdicts)} of {total}" if total else count(len(verdicts), "frame")]
    parts += [f"{n} {said}" for state, said in LEFT.items() if (n := verdicts.count(state))]
    return ", ".join(parts)


def render(report: Report, view: TextView = PLAIN) -> str:
    """Returns the summary of all frames, blame, and the verdict lines, below an empty line."""
    draft, report = drafts.render(report.drafts), visible(report)
    lines = "\n".join(view.paint(said, verdict) for verdict, said in verdicts_over_frames(report))
    if view.detail == "quiet":
        return lines
    tasks = "\n\n".join(view.wrap("\n".join(task_lines.describe(task))) for task in report.tasks)
    return "\n" + "\n\n".join(p for p in (view.wrap(_summarize(report)), tasks, draft, lines) if p)


def verdicts_over_frames(report: Report) -> list[tuple[Verdict, str]]:
    """Returns for every two sides the verdict over all frames and its line. report: with every text printable."""
    by_sides: dict[tuple[str, str], list[Pair]] = {}
    for pair in report.pairs:
        by_sides.setdefault((pair.a, pair.b), []).append(pair)
    return [_line_over(pairs, report) for pairs in by_sides.values()]


def _summarize(report: Report) -> str:
    """Returns how many frames passed, the worst ones, runs repeated, blame."""
    ran = [row for row in report.frames if row["verdict"] != "NOT RUN"]
    bad = sorted((r for r in report.frames if r["verdict"] != "PASSED"), key=frame_rank)
    parts = [
        heading.render(report, PLAIN),
        f"frames: {len(ran)} of {len(report.frames)} ran, {sum(r['verdict'] == 'PASSED' for r in ran)} PASSED",
    ]
    apart = [row for row in ran if row["max_abs"]]
    if not bad and apart:
        most = min(apart, key=frame_rank)
        parts.append(f"largest difference: {most['max_abs']:g} in frame {most['frame']} {most['source']}")
    if bad:
        parts += ["worst frames:", *(f"  {line(row)}" for row in bad[:SHOWN])]
    parts += describe_repeat(report)
    if report.blame is not None:
        parts.append(blame_line(report.blame))
    return "\n".join(parts)


def _line_over(pairs: list[Pair], report: Report) -> tuple[Verdict, str]:
    """Returns verdict and line over all frames; not PASSED where a frame did not run."""
    left_out = describe_left_out(report.frames)
    verdict = worst([p.verdict for p in pairs])
    same = list(dict.fromkeys(p.frame for p in pairs if p.verdict == verdict))
    compared = {p.frame for p in pairs}  # one board may be named twice
    frames = count(len(compared), "frame")
    facts = [frames if verdict == "PASSED" else f"{len(same)} of {frames}, the first is {same[0]}"]
    ran = {row["frame"] for row in report.frames if row["verdict"] != "NOT RUN"}
    left_out += [f"{count(lacking, 'frame')} not compared"] if (lacking := len(ran) - len(compared)) > 0 else []
    facts += left_out
    least: Verdict = "INCONCLUSIVE" if left_out else "PASSED"
    return worst([least, verdict]), line_over(pairs, facts, common_weakenings(report), least)
