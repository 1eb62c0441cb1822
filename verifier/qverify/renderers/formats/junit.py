"""JUnit's XML for CI systems: a suite for each pair, with a case for its verdict and for each of its tensors."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from typing import Any

from qverify.printable import visible
from qverify.renderers.difference_rows import headline, shown
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.triage_text import conclusion, worst_output
from qverify.renderers.triage_text import render as render_triage
from qverify.renderers.verdict_lines import verdict_line
from qverify.report.difference import ReportDifference, TensorChange
from qverify.report.document import Pair, ReportDocument, TensorRow, Verdict, worst
from qverify.report.triage_document import TriageDocument
from qverify.report.weakenings import list_common_caveats

SUFFIX = ".xml"
NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def write(report: ReportDocument, path: str) -> None:
    """Writes the suites. FAILED is a failure, INCONCLUSIVE an error; a report without pairs is also an error."""
    report = visible(report)
    suites = xml.Element("testsuites", name="qverify")
    for pair in report.pairs:
        suites.append(_suite(report, pair))
    if frames_not_run := [row for row in report.frames if row["verdict"] == "NOT RUN"]:
        suites.append(_not_run(frames_not_run))
    if not report.pairs or not _marked(suites, report.verdict):
        suite = xml.SubElement(suites, "testsuite", name="qverify")
        case = xml.SubElement(suite, "testcase", classname="qverify", name="verdict")
        text = "; ".join(text for _, text in overall_lines(report))
        _mark(
            case,
            report.verdict if report.pairs else worst([report.verdict, "INCONCLUSIVE"]),
            text or "nothing compared",
        )
        _count(suite)
    suites.set("time", f"{report.timings.get('total', 0.0):.3f}")
    xml.SubElement(suites[-1], "system-out").text = _text("\n".join(summary_lines(report)))
    _write(suites, path)


def _marked(suites: xml.Element, verdict: Verdict) -> bool:
    """Returns True if a case shows the verdict: a failure for FAILED, a failure or an error for INCONCLUSIVE."""
    marks = {"PASSED": (), "FAILED": ("failure",), "INCONCLUSIVE": ("failure", "error")}[verdict]
    return not marks or any(suites.find(f"testsuite/testcase/{mark}") is not None for mark in marks)


def _not_run(frames: list[dict[str, Any]]) -> xml.Element:
    """Returns a suite with an error for each frame that did not run, on each board."""
    suite = xml.Element("testsuite", name="frames that did not run")
    for row in frames:
        name = _text(f"{row['source']}{', ' + row['board'] if row['board'] else ''}")
        case = xml.SubElement(suite, "testcase", classname="frames that did not run", name=name)
        _mark(case, "INCONCLUSIVE", row["why"])
    _count(suite)
    return suite


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes one suite with a case for each rung, marked as in the report of a run."""
    document = visible(triage)
    suites = xml.Element("testsuites", name="qverify triage")
    suite = xml.SubElement(suites, "testsuite", name="triage", timestamp=_time(document.date))
    _mark(xml.SubElement(suite, "testcase", classname="triage", name="verdict"), document.verdict, conclusion(document))
    for rung in document.rungs:
        case = xml.SubElement(suite, "testcase", classname="triage", name=_text(f"{rung.a} ~ {rung.b}"))
        why = [rung.why or worst_output(rung), *rung.evidence, *([rung.next_step] if rung.next_step else [])]
        _mark(case, rung.verdict, "; ".join(filter(None, why)) or rung.gate)
    _count(suite)
    suites.set("time", f"{document.timings.get('total', 0.0):.3f}")
    xml.SubElement(suite, "system-out").text = _text(render_triage(triage))
    _write(suites, path)


def write_difference(difference: ReportDifference, path: str) -> None:
    """Writes a suite for each pair, with a case for its verdict and for each tensor that changed. Worse is a failure,
    not known an error."""
    difference = visible(difference)
    suites = xml.Element("testsuites", name="qverify report diff")
    whole = xml.SubElement(suites, "testsuite", name="report diff")
    _mark(
        xml.SubElement(whole, "testcase", classname="report diff", name="result"),
        _mark_of(difference.change),
        headline(difference),
    )
    _count(whole)
    for pair in difference.pairs:
        name = _text(" ".join((pair.pair, pair.board or "", f"frame {pair.frame}" if pair.frame else "")).strip())
        suite = xml.SubElement(suites, "testsuite", name=name)
        text = f"{pair.before or 'absent'} -> {pair.now or 'absent'} {pair.why_now}".strip()
        _mark(xml.SubElement(suite, "testcase", classname=name, name="verdict"), _mark_of(pair.change), text)
        for row in difference.tensors:
            if (row.pair, row.frame, row.board) == (pair.pair, pair.frame, pair.board):
                case = xml.SubElement(suite, "testcase", classname=name, name=_text(row.tensor))
                _mark(case, _mark_of(row.direction), _changed(row))
        _count(suite)
    _write(suites, path)


def _mark_of(direction: str) -> Verdict:
    return "FAILED" if direction == "worse" else "INCONCLUSIVE" if direction == "not known" else "PASSED"


def _changed(row: TensorChange) -> str:
    numbers = [
        f"{m.metric} {shown(m.before)} -> {shown(m.now)}"
        for m in row.metrics
        if not isinstance(m.before, dict) and not isinstance(m.now, dict)
    ]
    return ", ".join([f"{row.before} -> {row.now}", *numbers])


def _write(suites: xml.Element, path: str) -> None:
    """Writes the document, after adding the sums of its suites' numbers."""
    for name in ("tests", "failures", "errors"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    xml.indent(suites)
    write_report(f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.tostring(suites, encoding="unicode")}\n', path)


def _time(date: str) -> str:
    """Returns the date in UTC to the second, without a time zone, which some readers refuse."""
    return date.replace(" ", "T")[:19]


def _count(suite: xml.Element) -> None:
    """Sets the suite's numbers of cases, failures and errors."""
    for tag, marks in (("failures", "failure"), ("errors", "error")):
        suite.set(tag, str(len(suite.findall(f"testcase/{marks}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("skipped", "0")


def _suite(report: ReportDocument, pair: Pair) -> xml.Element:
    place = "".join(f", {word}" for word in (pair.board, f"frame {pair.frame}" if pair.frame else "") if word)
    name = _text(f"{pair.a} ~ {pair.b}{place}")
    suite = xml.Element("testsuite", name=name, timestamp=_time(report.date))
    text = verdict_line(pair, list_common_caveats(report))
    case = xml.SubElement(suite, "testcase", classname=name, name="verdict")
    _mark(case, pair.verdict, text)
    for row in pair.tensors:
        _mark(xml.SubElement(suite, "testcase", classname=name, name=_text(row.name)), row.verdict, _why(row))
    for missing in pair.coverage.missing:
        case = xml.SubElement(suite, "testcase", classname=name, name=_text(missing.tensor))
        _mark(case, "INCONCLUSIVE", f"missing in {missing.side}: {missing.why}")
    _count(suite)
    return suite


def _why(row: TensorRow) -> str:
    numbers = [f"{name} {value}" for name, value in row.metrics.items() if isinstance(value, (int, float))]
    forced = f"recomputed: {row.forced.verdict} {row.forced.why}".strip() if row.forced is not None else ""
    forced += f" ({row.forced.region.place})" if row.forced is not None and row.forced.region is not None else ""
    return "; ".join(text for text in (row.why, ", ".join(numbers), forced) if text)


def _mark(case: xml.Element, verdict: Verdict, why: str) -> None:
    if verdict != "PASSED":
        mark = xml.SubElement(case, "failure" if verdict == "FAILED" else "error", message=_text(why), type=verdict)
        mark.text = _text(why)


def _text(text: str) -> str:
    """Returns the text with characters that XML does not allow replaced."""
    return NOT_XML.sub("\ufffd", text)
