"""A comment for a merge request: the verdict, the blame, a table of what differs, and the rest folded away."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.difference_rows import DifferenceRow, difference_rows, headline, shown
from qverify.renderers.fault_explanation import verdict as explain
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.triage_text import render as render_triage
from qverify.renderers.triage_text import worst_output
from qverify.report.difference import ReportDifference
from qverify.report.document import Pair, Report, TensorRow
from qverify.report.triage_document import TensorLoss, TriageDocument

SUFFIX = ".md"
MOST = 20  # rows of a pair's table
MOST_TEXT = 60_000  # characters: GitHub takes 65,536
MOST_NAME = 300  # of a name or a reason
MOST_PAIRS = 12  # tables: a comment has a limit
MARKS = {"PASSED": "✅", "FAILED": "❌", "INCONCLUSIVE": "⚠️"}
SIGNS = {"same": "✅", "better": "✅", "worse": "❌", "not known": "⚠️"}
SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>!|~"} | {"&": "&amp;", "@": "@\u200b"})


def write(report: Report, path: str) -> None:
    """Writes the comment. Names are escaped, and mention nobody."""
    write_report(text(report), path)


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes the comment: blame and next step, the ladder, what explains the difference, the losses."""
    write_report(text(triage), path)


def write_difference(found: ReportDifference, path: str) -> None:
    """Writes the comment: the result, verdicts and blame, the tensors that changed, and the rest folded away."""
    write_report(text(found), path)


def text(found: Report | TriageDocument | ReportDifference) -> str:
    """Returns the comment."""
    found = visible(found)
    if isinstance(found, ReportDifference):
        lines = _difference(found)
    else:
        lines = _triage(found) if isinstance(found, TriageDocument) else _report(found)
    return "\n".join([*_bounded(lines), "", "</details>", ""])


def _bounded(lines: list[str]) -> list[str]:
    """Returns the first lines, MOST_TEXT characters of them at most, and how many are left out."""
    room, shown = MOST_TEXT, list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    if len(shown) == len(lines):
        return lines
    opened = [] if any(line.startswith("<details>") for line in shown) else ["", "<details><summary>The rest</summary>"]
    return [*shown, *opened, "", f"{count(len(lines) - len(shown), 'more line')}; the other formats have them."]


def _report(report: Report) -> list[str]:
    lines = [f"## {MARKS[report.verdict]} qverify: {report.verdict}", ""]
    if report.blame is not None:
        lines += [
            f"**{_escape(report.blame.side)}** is to blame at **{_escape(report.blame.node)}**: {_escape(report.blame.why)}",
            "",
        ]
    elif report.verdict != "PASSED":
        lines += [*(f"- {_escape(said)}" for _, said in overall_lines(report)), ""]
    bad = (
        [pair for pair in report.pairs if pair.verdict != "PASSED"] if len(report.pairs) > MOST_PAIRS else report.pairs
    )
    for pair in bad[:MOST_PAIRS]:
        lines += _table(pair, report)
    if len(bad) > MOST_PAIRS:
        lines += [f"{len(bad) - MOST_PAIRS} more comparisons are not shown; the other formats have them.", ""]
    lines += ["<details><summary>All verdicts and notes</summary>", ""]
    return lines + [f"- {_escape(line)}" for line in summary_lines(report)]


def _difference(found: ReportDifference) -> list[str]:
    rows = difference_rows(found)
    first, rest = ("verdict", "blame"), ("only", "time", "fact")
    lines = [f"## {SIGNS[found.change]} qverify report diff: {found.change}", "", _escape(headline(found)), ""]
    lines += _changes([row for row in rows if row.kind in first])
    lines += _changes([row for row in rows if row.kind not in (*first, *rest)])
    lines += ["<details><summary>Times, options, hashes, tensors of one run only</summary>", ""]
    return lines + _changes([row for row in rows if row.kind in rest])


def _changes(rows: list[DifferenceRow]) -> list[str]:
    if not rows:
        return []
    lines = ["| pair | tensor | what | a | b | change |", "|---|---|---|---|---|---|"]
    for row in rows[: 5 * MOST]:
        place = f" ({row.board})" if row.board else ""
        place += f" frame {row.frame}" if row.frame else ""
        cells = (f"{row.pair}{place}", row.tensor, row.what, shown(row.before), shown(row.now), row.direction)
        lines.append(f"| {' | '.join(map(_escape, cells))} |")
    return [*lines, *([f"| ... {len(rows) - 5 * MOST} more | | | | | |"] if len(rows) > 5 * MOST else []), ""]


def _triage(found: TriageDocument) -> list[str]:
    lines = [f"## {MARKS[found.verdict]} qverify triage: {found.verdict}", ""]
    broken = next((r for r in found.rungs if found.broken == f"{r.a} ~ {r.b}"), None)
    if broken is not None and (b := broken.blame) is not None:
        lines += [f"**{_escape(b.side)}** is to blame at **{_escape(b.node)}**: {_escape(b.why)}", ""]
    explained = [one for one in found.explained if one.explanation is not None]
    lines += [f"{_escape(one.tensor)}: {_escape(explain(one.explanation))}\n" for one in explained]
    lines += [f"Next step: {_escape(found.next_step)}", ""] if found.next_step else []
    lines += ["| gate | verdict | by | worst output |", "|---|---|---|---|"]
    lines += [
        f"| {_escape(r.a)} \\~ {_escape(r.b)} | {MARKS[r.verdict]} {r.verdict} | {_escape(r.gate)} | {_escape(worst_output(r))} |"
        for r in found.rungs
    ]
    lines += ["", *_losses(found.losses)]
    lines += ["<details><summary>Everything triage says</summary>", ""]
    return lines + [f"- {_escape(line.strip())}" for line in render_triage(found).splitlines() if line.strip()]


def _losses(rows: list[TensorLoss]) -> list[str]:
    if not rows:
        return []
    head = ["| tensor | op | SQNR dB | cosine | clipped | range used |", "|---|---|---|---|---|---|"]
    cells = [
        f"| {_escape(r.tensor)} | {_escape(r.op)} | {r.sqnr_db:.1f} | {r.cosine:.4f} | {r.clipped:.2%} | {r.used:.0%} |"
        for r in rows[:MOST]
    ]
    more = [f"| ... {len(rows) - MOST} more | | | | | |"] if len(rows) > MOST else []
    return [f"### Loss of quantization: {count(len(rows), 'tensor')}", "", *head, *cells, *more, ""]


def _table(pair: Pair, report: Report) -> list[str]:
    rows = [row for row in pair.tensors if row.verdict != "PASSED"]
    if not rows:
        return []
    words = [pair.board or "", f"frame {pair.frame}" if report.frames else ""]
    place = f" ({', '.join(_escape(word) for word in words if word)})" if any(words) else ""
    head = [f"### {pair.a} ~ {pair.b}{place}: {len(rows)} of {len(pair.tensors)} tensors", ""]
    head += ["| tensor | op | verdict | differ | largest difference | recomputed |", "|---|---|---|---|---|---|"]
    more = [f"| ... {len(rows) - MOST} more | | | | | |"] if len(rows) > MOST else []
    return [*head, *map(_row, rows[:MOST]), *more, ""]


def _row(row: TensorRow) -> str:
    largest, failing = row.metrics.get("max_abs"), "" if row.failing is None else f"{row.failing} of {row.elements}"
    number = f"{largest:.4g}" if isinstance(largest, (int, float)) else ""
    forced = row.forced.verdict if row.forced is not None else ""
    return f"| {_escape(row.name)} | {_escape(row.op)} | {row.verdict} | {failing} | {number} | {forced} |"


def _escape(text: str) -> str:
    if len(text) > MOST_NAME:
        text = f"{text[: MOST_NAME // 2]} ... {text[-MOST_NAME // 2 :]}"
    return text.translate(SPECIAL)
