"""Makes one report of those of several boards, frames or rungs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from qverify.errors import UsageError
from qverify.report.document import Blame, ReportDocument, worst
from qverify.report.spread import combine_runs

Number = TypeVar("Number", int, float)


def combine(reports: list[ReportDocument]) -> ReportDocument:
    """Returns the reports of several boards or frames as one, with the worst verdict, its blame, and every pair. Raises
    UsageError if there is no report."""
    if not reports:
        raise UsageError("no report to combine: nothing ran")
    first = reports[0]
    blamed = [b for r in reports for b in r.blamed]
    _show_cause(blamed)
    return ReportDocument(
        verdict=worst([r.verdict for r in reports]),
        blame=blamed[0] if blamed else None,
        decimals=first.decimals,
        pairs=[p for r in reports for p in r.pairs],
        blamed=blamed,
        inputs=first.inputs,
        models=first.models,
        sides=[s for r in reports for s in r.sides],
        not_run=list({n.side: n for r in reports for n in r.not_run}.values()),
        plain_onnxruntime=first.plain_onnxruntime,
        no_integer_reference=first.no_integer_reference,
        on_host=first.on_host,
        canary=first.canary,
        link=sum_by_name(r.link for r in reports),
        timings=sum_by_name(r.timings for r in reports),
        notes=[n for r in reports for n in r.notes],
        dump_all=first.dump_all,
        criteria=first.criteria,
        caveats=list(dict.fromkeys(c for r in reports for c in r.caveats)),
        repeat=_combine_repeats([r.repeat for r in reports if r.repeat]),
        frames=[f for r in reports for f in r.frames],
        reference_spread=combine_runs(s for r in reports for s in r.reference_spread),
        date=first.date,
        boards=list(dict.fromkeys(b for r in reports for b in r.boards)),
        drafts={name: draft for r in reports for name, draft in r.drafts.items()},
        input_drawings=[*{(d.frame, d.name): d for r in reports for d in r.input_drawings}.values()],
        units=first.units,
        tasks=[t for r in reports for t in r.tasks],
        distance=[d for r in reports for d in r.distance],
        findings=[f for r in reports for f in r.findings],
        sequence=next((r.sequence for r in reports if r.sequence is not None), None),
        facts=first.facts,
        environment=first.environment,
        checks=[c for r in reports for c in r.checks],
        shapes=[s for r in reports for s in r.shapes],
    )


def _show_cause(blamed: list[Blame]) -> None:
    """Gives the first blame the cause that a later frame shows at the same node of the same side, if it has none."""
    first = blamed[0] if blamed else None
    if first is not None and first.cause is None:
        same = (b.cause for b in blamed if (b.side, b.node) == (first.side, first.node) and b.cause is not None)
        first.cause = next(same, None)


def _combine_repeats(outcomes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the worst outcome of --repeat: an unstable one, else one that was broken off, else one with the fewest
    runs."""
    return min(outcomes, key=lambda r: (not r["unstable"], not r["why"], r["runs"]), default=None)


def sum_by_name(rows: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    """Returns the sum of each name's numbers over all rows."""
    sums: dict[str, Number] = {}
    for row in rows:
        for name, number in row.items():
            sums[name] = sums[name] + number if name in sums else number
    return sums
