"""Returns the contents of a report except its tensors as lines. All formats other than JSON show them."""

from __future__ import annotations

from qverify.renderers import task_lines
from qverify.renderers.blamed import blame_in_one_line
from qverify.renderers.check_lines import check_lines
from qverify.renderers.findings import finding_lines
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.sequence_lines import point_lines, sequence_lines
from qverify.report.distance import distance_lines
from qverify.report.document import ReportDocument
from qverify.report.untapped import untapped_lines


def summary_lines(report: ReportDocument) -> list[str]:
    """Returns lines with heading, verdicts, blame, sides that did not run, missing tensors, frames, task numbers and
    notes."""
    models = ", ".join(str(m.get("path", "")) for m in report.models)
    lines = [f"qverify {report.qverify}; {report.date}" + (f"; model {models}" if models else "")]
    lines += [f"board {board}" for board in report.boards]
    lines += [text for _, text in overall_lines(report)] or [f"nothing compared: {report.verdict}"]
    lines += [line.strip() for line in sequence_lines(report)] + point_lines(report)
    lines += check_lines(report)
    lines += finding_lines(report.findings, None)
    lines += untapped_lines(report.pairs)
    lines += [line.strip() for line in distance_lines(report.distance)]
    lines += dict.fromkeys(f"blame: {blame_in_one_line(blame)}" for blame in report.blamed)
    lines += [f"{absent.side}: not run: {absent.why}" for absent in report.not_run]
    for pair in report.pairs:
        words = (pair.board if len(report.boards) > 1 else "", f"frame {pair.frame}" if report.frames else "")
        pair_name, covered = ", ".join([f"{pair.a} ~ {pair.b}", *filter(None, words)]), pair.coverage
        lines.append(
            f"{pair_name}: {covered.compared} of {covered.expected} tensors compared; {pair.gate}; {pair.scope}"
        )
        lines += [f"{pair_name}: {m.tensor} is missing in {m.side}: {m.why}" for m in pair.coverage.missing]
        lines += [f"{pair_name}: {note}" for note in pair.notes]
    lines += [f"frame {f.get('source', '')}: {f.get('verdict', '')}" for f in report.frames]
    lines += [line.strip() for task in report.tasks for line in task_lines.describe(task, None)]
    return [*lines, *report.caveats, *report.notes]
