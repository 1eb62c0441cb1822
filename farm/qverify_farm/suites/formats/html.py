"""A suite's report as one HTML page, without scripts and without external resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from qverify.printable import visible

from qverify_farm.suites.formats.report_lines import (
    caveat_lines,
    duration_s,
    flaky_lines,
    format_time,
    headline,
    reason,
    trend_lines,
    verdict_so_far,
    verdict_words,
    worst_first,
)
from qverify_farm.suites.suite_report import PastRun, SuiteReport

MAX_FACTS = 100
LONG_CELL = 40  # characters, from which a cell has a width of its own
STYLE = """
:root{color-scheme:light dark;--bad:#b3261e;--good:#1b6e3c;--odd:#8a5a00;--line:#8884}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}
td.why{min-width:16rem}
th{white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}
td.PASSED,td.FAILED,td.INCONCLUSIVE{white-space:nowrap}.PASSED{color:var(--good);font-weight:600}.FAILED{color:var(--bad);font-weight:600}.INCONCLUSIVE,.queued,.running,.cancelled{color:var(--odd);font-weight:600}
.wide{overflow-x:auto}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:#777}dd{margin:0;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){:root{--bad:#ff8a80;--good:#7ddc9a;--odd:#ffc766}}
"""


def render(report: SuiteReport) -> str:
    """Returns the page."""
    report = visible(report)
    title = escape(f"{report.verdict}: {report.name}")
    parts = [
        _facts(report),
        _lines("What changed", [*trend_lines(report), *flaky_lines(report)]),
        _lines("What weakens the verdict", caveat_lines(report)),
        _jobs(report),
        _boards(report),
    ]
    parts.append(_past(report.past))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body><main>"
        f'<h1><span class="{report.verdict}">{verdict_so_far(report)}</span>{escape(headline(report).removeprefix(verdict_so_far(report)))}</h1>'
        f"{''.join(parts)}</main></body></html>\n"
    )


def _facts(report: SuiteReport) -> str:
    facts = {"run": report.id, "submitted": f"{format_time(report.created)} by {report.submitter}"}
    facts |= {
        "ended": format_time(report.ended),
        "took": f"{duration_s(report):.0f} s" if report.ended else "",
        **report.labels,
    }
    facts["qverify"] = report.qverify
    shown = [(key, value) for key, value in facts.items() if value][:MAX_FACTS]
    return f"<dl>{''.join(f'<dt>{escape(key)}</dt><dd>{escape(value)}</dd>' for key, value in shown)}</dl>"


def _lines(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f"<h2>{title}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    body = "".join(f"<tr>{_cells(row, numbers)}</tr>" for row in rows)
    names = "".join(f'<th scope="col"{_right(column, numbers)}>{name}</th>' for column, name in enumerate(head))
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h2>{title}</h2><div class="wide" tabindex="0" role="region" aria-label="{title}">{table}</div>'


def _cells(row: Sequence[str], numbers: Sequence[int]) -> str:
    return "".join(f"<td{_class(cell, column, numbers)}>{escape(cell)}</td>" for column, cell in enumerate(row))


def _class(cell: str, column: int, numbers: Sequence[int]) -> str:
    if len(cell) > LONG_CELL:
        return ' class="why"'
    is_word = cell in ("PASSED", "FAILED", "INCONCLUSIVE", "queued", "running", "cancelled")
    return f' class="{cell}"' if is_word else _right(column, numbers)


def _right(column: int, numbers: Sequence[int]) -> str:
    return ' class="n"' if column in numbers else ""


def _jobs(report: SuiteReport) -> str:
    rows = [
        (
            *(verdict_words(job), job.name, job.board, job.change, reason(job), job.gate),
            *(str(job.attempts), f"{job.seconds:.1f}"),
        )
        for job in worst_first(report)
    ]
    return _table("Jobs", ("verdict", "job", "board", "change", "why", "gate", "attempts", "seconds"), rows, (6, 7))


def _boards(report: SuiteReport) -> str:
    rows = [
        (
            row.board,
            str(row.attempts),
            f"{row.board_seconds:.1f}",
            str(row.inconclusive),
            "yes" if row.flaky else "",
            row.why,
        )
        for row in report.boards
    ]
    head = ("board", "attempts", "seconds held", "without a verdict", "flaky", "why")
    return _table("Boards", head, rows, (1, 2, 3)) if rows else ""


def _past(past: Sequence[PastRun]) -> str:
    rows = [
        (
            run.verdict or "",
            format_time(run.created),
            str(run.passed),
            str(run.failed),
            str(run.inconclusive),
            ", ".join(f"{key} {value}" for key, value in run.labels.items()),
        )
        for run in past
    ]
    head = ("verdict", "run", "PASSED", "FAILED", "INCONCLUSIVE", "labels")
    return _table("Earlier runs", head, rows, (2, 3, 4)) if rows else ""
