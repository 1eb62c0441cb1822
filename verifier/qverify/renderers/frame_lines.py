"""Renders a run of many frames: the worst frames first, and one verdict line per pair over all frames."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import drafts, heading, task_lines
from qverify.renderers.blamed import blame_line
from qverify.renderers.check_lines import check_lines, frame_noun
from qverify.renderers.findings import finding_lines
from qverify.renderers.outputs_question import ask_for_outputs
from qverify.renderers.sequence_lines import sequence_lines
from qverify.renderers.terminal import describe_repeat
from qverify.renderers.text_view import TextView
from qverify.renderers.verdict_lines import reasons_of, verdict_line_over
from qverify.report.distance import distance_lines
from qverify.report.document import Pair, ReportDocument, Verdict, worst
from qverify.report.frame_rank import frame_rank
from qverify.report.frames_left_out import describe_left_out
from qverify.report.sequence import BOTH, FORCED, FREE
from qverify.report.untapped import untapped_lines
from qverify.report.weakenings import list_common_caveats

MAX_SHOWN = 10  # frames
PLAIN = TextView()
STATE_WORDS = {"NOT RUN": "left out", "FAILED": "FAILED", "INCONCLUSIVE": "INCONCLUSIVE"}


def frame_line(row: dict[str, Any], view: TextView = PLAIN) -> str:
    """Returns the line of one frame, which is printed as soon as the frame is judged. The source of a step names it."""
    row = visible(row)
    text = f"{_name(row)}: {row['verdict']}" + (f" ({row['why']})" if row["why"] else "")
    return view.paint(view.wrap(text), row["verdict"] if row["verdict"] != "PASSED" else "")


def _name(row: dict[str, Any]) -> str:
    """Returns the name of a frame with its source. The source of a step, or of a shape, is its name."""
    is_named = row["source"].startswith((f"step {row['frame']}", "shape "))
    return str(row["source"]) if is_named else f"frame {row['frame']} {row['source']}"


def progress(verdicts: list[str], total: int) -> str:
    """Returns the progress of a run, such as `7 of 21, 3 left out`. verdicts: verdicts of the frames that are done.
    total: number of frames, or 0 if it is not known."""
    parts = [f"{len(verdicts)} of {total}" if total else count(len(verdicts), "frame")]
    parts += [f"{n} {words}" for state, words in STATE_WORDS.items() if (n := verdicts.count(state))]
    return ", ".join(parts)


def render(report: ReportDocument, view: TextView = PLAIN) -> str:
    """Returns an empty line, the summary of all frames, blame, and the verdict lines."""
    draft, report = drafts.render(report.drafts), visible(report)
    lines = "\n".join(view.paint(text, verdict) for verdict, text in verdicts_over_frames(report))
    if view.detail == "quiet":
        return lines
    tasks = "\n\n".join(view.wrap("\n".join(task_lines.describe(task))) for task in report.tasks)
    question = view.wrap(ask_for_outputs(report))
    return "\n" + "\n\n".join(p for p in (view.wrap(_summarize(report)), tasks, question, draft, lines) if p)


def verdicts_over_frames(report: ReportDocument) -> list[tuple[Verdict, str]]:
    """Returns the verdict over all frames and its line, for every two sides. report: all its texts must be
    printable."""
    by_sides: dict[tuple[str, str], list[Pair]] = {}
    for pair in report.pairs:
        by_sides.setdefault((pair.a, pair.b), []).append(pair)
    if report.sequence is not None:
        groups = [(pairs, feeds) for pairs in by_sides.values() for feeds in feeds_of(pairs, report.sequence.feeds)]
        return [_line_over([p for p in pairs if p.feed in feeds[1]], report, feeds[0]) for pairs, feeds in groups]
    return [_line_over(pairs, report) for pairs in by_sides.values()]


def feeds_of(pairs: list[Pair], asked: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the feeds of a sequence that have a line of their own: the name, and which `feed` its pairs have. Both have
    one line if every step is of both."""
    if len(asked) < 2:
        return [(asked[0], (asked[0], BOTH))]
    if all(pair.feed == BOTH for pair in pairs):
        return [(f"{FORCED} and {FREE}", (BOTH,))]
    return [(FORCED, (FORCED, BOTH)), (FREE, (FREE, BOTH))]


def _summarize(report: ReportDocument) -> str:
    """Returns how many frames passed, the worst frames, repeated runs, and blame."""
    ran = [row for row in report.frames if row["verdict"] != "NOT RUN"]
    bad = sorted((r for r in report.frames if r["verdict"] != "PASSED"), key=frame_rank)
    frames = f"{frame_noun(report)}s"
    parts = [
        heading.render(report, PLAIN),
        f"{frames}: {len(ran)} of {len(report.frames)} ran, {sum(r['verdict'] == 'PASSED' for r in ran)} PASSED",
    ]
    differing = [row for row in ran if row["max_abs"]]
    if not bad and differing:
        worst_frame = min(differing, key=frame_rank)
        parts.append(f"largest difference: {worst_frame['max_abs']:g} in {_name(worst_frame)}")
    if bad:
        parts += [f"worst {frames}:", *(f"  {frame_line(row)}" for row in bad[:MAX_SHOWN])]
    parts += sequence_lines(report)
    parts += describe_repeat(report)
    parts += check_lines(report)
    parts += untapped_lines(report.pairs)
    parts += distance_lines(report.distance)
    parts += finding_lines(report.findings)
    if report.blame is not None:
        parts.append(blame_line(report.blame))
    return "\n".join(parts)


def _line_over(pairs: list[Pair], report: ReportDocument, feed: str = "") -> tuple[Verdict, str]:
    """Returns verdict and line over all frames. The verdict is not PASSED if a frame did not run. feed: of the steps of a
    sequence, else ""."""
    frame = "step" if feed else frame_noun(report)
    left_out = describe_left_out(report.frames, frame)
    verdict = worst([p.verdict for p in pairs])
    frames_of_verdict = list(dict.fromkeys(p.frame for p in pairs if p.verdict == verdict))
    compared = {p.frame for p in pairs}  # one board may be named twice
    frames = count(len(compared), frame)
    first = next((p for p in pairs if p.verdict == verdict), None)
    facts = [
        frames
        if verdict == "PASSED" or not frames_of_verdict
        else f"{len(frames_of_verdict)} of {frames}, the first is {frames_of_verdict[0]}"
    ]
    if first is not None and first.cause == "task" and verdict != "PASSED":
        facts += reasons_of(first)
    if feed and report.sequence is not None:
        own = report.sequence.facts_of_own_run(pairs[0].a, pairs[0].b) if FREE in feed else []
        reasons = reasons_of(first) if first is not None and verdict != "PASSED" else []
        facts = [f"{feed}: {facts[0]}", *reasons, *own]
    ran = {row["frame"] for row in report.frames if row["verdict"] != "NOT RUN"}
    left_out += [f"{count(not_compared, frame)} not compared"] if (not_compared := len(ran) - len(compared)) > 0 else []
    facts += left_out
    best_verdict: Verdict = "INCONCLUSIVE" if left_out else "PASSED"
    return worst([best_verdict, verdict]), verdict_line_over(pairs, facts, list_common_caveats(report), best_verdict)
