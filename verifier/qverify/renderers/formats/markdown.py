"""A comment for a merge request: the verdict, the blame, a table of differences, and everything else folded."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.difference_rows import DifferenceRow, difference_rows, headline, shown
from qverify.renderers.fault_explanation import verdict as explain
from qverify.renderers.matrix_rows import (
    LEGEND,
    describe_change,
    describe_facts,
    list_changes,
    mark_of,
    verdict_of,
)
from qverify.renderers.matrix_rows import headline as headline_of_matrix
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.triage_text import render as render_triage
from qverify.renderers.triage_text import worst_output
from qverify.report.difference import ReportDifference
from qverify.report.document import Blame, Pair, ReportDocument, TensorRow
from qverify.report.matrix.document import MatrixCell, MatrixDocument
from qverify.report.triage_document import TensorLoss, TriageDocument

SUFFIX = ".md"
MAX_ROWS = 20  # of a pair's table
MAX_TEXT_LENGTH = 60_000  # characters: GitHub accepts 65,536
MAX_NAME_LENGTH = 300  # characters of a name or a reason
MAX_PAIRS = 12  # tables
MARKS = {"PASSED": "✅", "FAILED": "❌", "INCONCLUSIVE": "⚠️"}
SIGNS = {"same": "✅", "better": "✅", "worse": "❌", "changed": "❌", "not known": "⚠️"}
SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>!|~"} | {"&": "&amp;", "@": "@\u200b"})


def write(report: ReportDocument, path: str) -> None:
    """Writes the comment. Names are escaped, so that they mention no user."""
    write_report(text(report), path)


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes the comment: blame, next step, explanation of the difference, ladder and losses."""
    write_report(text(triage), path)


def write_difference(difference: ReportDifference, path: str) -> None:
    """Writes the comment: result, verdicts, blame, changed tensors, and everything else folded."""
    write_report(text(difference), path)


def write_matrix(matrix: MatrixDocument, path: str) -> None:
    """Writes the comment: the result, the table, where each row changed first, and everything else folded."""
    write_report(text(matrix), path)


def text(result: ReportDocument | TriageDocument | ReportDifference | MatrixDocument) -> str:
    """Returns the comment."""
    result = visible(result)
    if isinstance(result, ReportDifference):
        lines = _difference(result)
    elif isinstance(result, MatrixDocument):
        lines = _matrix(result)
    else:
        lines = _triage(result) if isinstance(result, TriageDocument) else _report(result)
    return "\n".join([*_limit_length(lines), "", "</details>", ""])


def _limit_length(lines: list[str]) -> list[str]:
    """Returns the first lines, with at most MAX_TEXT_LENGTH characters, and a line on how many are left out."""
    room, shown = MAX_TEXT_LENGTH, list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    if len(shown) == len(lines):
        return lines
    opened = [] if any(line.startswith("<details>") for line in shown) else ["", "<details><summary>The rest</summary>"]
    return [*shown, *opened, "", f"{count(len(lines) - len(shown), 'more line')}; the other formats have them."]


def _report(report: ReportDocument) -> list[str]:
    lines = [f"## {MARKS[report.verdict]} qverify: {report.verdict}", ""]
    if report.blame is not None:
        lines += [
            f"**{_escape(report.blame.side)}** is to blame {_place(report.blame)}: {_escape(report.blame.why)}",
            "",
            *([_escape(report.blame.cause.sentence), ""] if report.blame.cause is not None else []),
        ]
    elif report.verdict != "PASSED":
        lines += [*(f"- {_escape(text)}" for _, text in overall_lines(report)), ""]
    shown_pairs = (
        [pair for pair in report.pairs if pair.verdict != "PASSED"] if len(report.pairs) > MAX_PAIRS else report.pairs
    )
    for pair in shown_pairs[:MAX_PAIRS]:
        lines += _table(pair, report)
    if len(shown_pairs) > MAX_PAIRS:
        lines += [f"{len(shown_pairs) - MAX_PAIRS} more comparisons are not shown; the other formats have them.", ""]
    lines += ["<details><summary>All verdicts and notes</summary>", ""]
    return lines + [f"- {_escape(line)}" for line in summary_lines(report)]


def _place(blame: Blame) -> str:
    return f"at **{_escape(blame.node)}**" if blame.region is None else f"**{_escape(blame.place)}**"


def _difference(difference: ReportDifference) -> list[str]:
    rows = difference_rows(difference)
    first_kinds, folded_kinds = ("verdict", "blame"), ("only", "time", "fact")
    lines = [
        f"## {SIGNS[difference.change]} qverify report diff: {difference.change}",
        "",
        _escape(headline(difference)),
        "",
    ]
    lines += _changes([row for row in rows if row.kind in first_kinds])
    lines += _changes([row for row in rows if row.kind not in (*first_kinds, *folded_kinds)])
    lines += ["<details><summary>Times, options, hashes, tensors of one run only</summary>", ""]
    return lines + _changes([row for row in rows if row.kind in folded_kinds])


def _changes(rows: list[DifferenceRow]) -> list[str]:
    if not rows:
        return []
    lines = ["| pair | tensor | what | a | b | change |", "|---|---|---|---|---|---|"]
    for row in rows[: 5 * MAX_ROWS]:
        place = f" ({row.board})" if row.board else ""
        place += f" frame {row.frame}" if row.frame else ""
        cells = (f"{row.pair}{place}", row.tensor, row.what, shown(row.before), shown(row.now), row.direction)
        lines.append(f"| {' | '.join(map(_escape, cells))} |")
    return [*lines, *([f"| ... {len(rows) - 5 * MAX_ROWS} more | | | | | |"] if len(rows) > 5 * MAX_ROWS else []), ""]


def _matrix(matrix: MatrixDocument) -> list[str]:
    cells = {(cell.row, cell.column): cell for cell in matrix.cells}
    heads = [", ".join(matrix.rows_by), *(column.name for column in matrix.columns)]
    lines = [
        f"## {SIGNS[matrix.verdicts]} qverify report matrix: {matrix.verdicts}",
        "",
        _escape(headline_of_matrix(matrix)),
        "",
    ]
    lines += [f"| {' | '.join(map(_escape, heads))} |", f"|{'---|' * len(heads)}"]
    for at, row in enumerate(matrix.rows):
        of_row = (cells.get((at, number)) for number in range(len(matrix.columns)))
        lines.append(f"| {' | '.join([_escape(row.name), *map(_matrix_cell, of_row)])} |")
    changes = [f"- {_escape(describe_change(matrix, cell))}" for cell in list_changes(matrix)]
    lines += ["", f"{_escape(LEGEND)}.", "", *changes, *([""] if changes else [])]
    folded = [f"not readable: {row.why}" for row in matrix.unreadable]
    folded += [f"{c.name}: in every row {describe_facts(c.stack, MAX_ROWS)}" for c in matrix.columns if c.stack]
    return [*lines, "<details><summary>Columns and notes</summary>", ""] + [
        f"- {_escape(line)}" for line in [*folded, *matrix.notes]
    ]


def _matrix_cell(cell: MatrixCell | None) -> str:
    if cell is None:
        return "-"
    mark = MARKS.get(verdict_of(cell), SIGNS["not known"])
    return f"{mark} {verdict_of(cell)}{_escape(mark_of(cell))}"


def _triage(document: TriageDocument) -> list[str]:
    lines = [f"## {MARKS[document.verdict]} qverify triage: {document.verdict}", ""]
    broken = next((r for r in document.rungs if document.broken == f"{r.a} ~ {r.b}"), None)
    if broken is not None and (blame := broken.blame) is not None:
        lines += [f"**{_escape(blame.side)}** is to blame {_place(blame)}: {_escape(blame.why)}", ""]
    explained = [row for row in document.explained if row.explanation is not None]
    lines += [f"{_escape(row.tensor)}: {_escape(explain(row.explanation))}\n" for row in explained]
    lines += [f"Next step: {_escape(document.next_step)}", ""] if document.next_step else []
    lines += ["| gate | verdict | by | worst output |", "|---|---|---|---|"]
    lines += [
        f"| {_escape(r.a)} \\~ {_escape(r.b)} | {MARKS[r.verdict]} {r.verdict} | {_escape(r.gate)} | {_escape(worst_output(r))} |"
        for r in document.rungs
    ]
    lines += ["", *_losses(document.losses)]
    lines += ["<details><summary>Everything triage says</summary>", ""]
    return lines + [f"- {_escape(line.strip())}" for line in render_triage(document).splitlines() if line.strip()]


def _losses(rows: list[TensorLoss]) -> list[str]:
    if not rows:
        return []
    head = ["| tensor | op | SQNR dB | cosine | clipped | range used |", "|---|---|---|---|---|---|"]
    cells = [
        f"| {_escape(r.tensor)} | {_escape(r.op)} | {r.sqnr_db:.1f} | {r.cosine:.4f} | {r.clipped:.2%} | {r.used:.0%} |"
        for r in rows[:MAX_ROWS]
    ]
    more = [f"| ... {len(rows) - MAX_ROWS} more | | | | | |"] if len(rows) > MAX_ROWS else []
    return [f"### Loss of quantization: {count(len(rows), 'tensor')}", "", *head, *cells, *more, ""]


def _table(pair: Pair, report: ReportDocument) -> list[str]:
    rows = [row for row in pair.tensors if row.verdict != "PASSED"]
    if not rows:
        return []
    words = [pair.board or "", f"frame {pair.frame}" if report.frames else ""]
    place = f" ({', '.join(_escape(word) for word in words if word)})" if any(words) else ""
    head = [f"### {pair.a} ~ {pair.b}{place}: {len(rows)} of {len(pair.tensors)} tensors", ""]
    head += ["| tensor | op | verdict | differ | largest difference | recomputed |", "|---|---|---|---|---|---|"]
    more = [f"| ... {len(rows) - MAX_ROWS} more | | | | | |"] if len(rows) > MAX_ROWS else []
    return [*head, *map(_row, rows[:MAX_ROWS]), *more, ""]


def _row(row: TensorRow) -> str:
    largest, failing = row.metrics.get("max_abs"), "" if row.failing is None else f"{row.failing} of {row.elements}"
    number = f"{largest:.4g}" if isinstance(largest, (int, float)) else ""
    forced = "" if row.forced is None else str(row.forced.verdict)
    forced += f" ({_escape(row.forced.region.place)})" if row.forced is not None and row.forced.region else ""
    return f"| {_escape(row.name)} | {_escape(row.op)} | {row.verdict} | {failing} | {number} | {forced} |"


def _escape(text: str) -> str:
    if len(text) > MAX_NAME_LENGTH:
        text = f"{text[: MAX_NAME_LENGTH // 2]} ... {text[-MAX_NAME_LENGTH // 2 :]}"
    return text.translate(SPECIAL)
