"""A suite's report as JUnit XML: a test suite for each model, a test case for each job. INCONCLUSIVE is an error."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml

from qverify.printable import visible

from qverify_farm.store.states import INCONCLUSIVE
from qverify_farm.suites.formats.report_lines import (
    caveat_lines,
    duration_s,
    flaky_lines,
    headline,
    reason,
    trend_lines,
)
from qverify_farm.suites.suite_report import JobRow, SuiteReport

NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def render(report: SuiteReport) -> str:
    """Returns the document. A job that has not ended is an error, too. A run without jobs has one test case with an error."""
    report = visible(report)
    suites = xml.Element("testsuites", name=_text(report.name), time=f"{duration_s(report):.3f}")
    models = dict.fromkeys(job.model for job in report.jobs)
    for model in models:
        suites.append(_suite(model, [job for job in report.jobs if job.model == model]))
    if not models:
        suite = xml.SubElement(suites, "testsuite", name=_text(report.name))
        xml.SubElement(
            xml.SubElement(suite, "testcase", classname="suite", name="verdict"),
            "error",
            message="no jobs",
            type=INCONCLUSIVE,
        )
        _count(suite)
    for name in ("tests", "failures", "errors"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    lines = [headline(report), *trend_lines(report), *flaky_lines(report), *caveat_lines(report)]
    xml.SubElement(suites[-1], "system-out").text = _text("\n".join(lines))
    xml.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.tostring(suites, encoding="unicode")}\n'


def _suite(model: str, jobs: list[JobRow]) -> xml.Element:
    suite = xml.Element("testsuite", name=_text(model), time=f"{sum(job.seconds for job in jobs):.3f}")
    for job in jobs:
        case = xml.SubElement(
            suite, "testcase", classname=_text(model), name=_text(job.name), time=f"{job.seconds:.3f}"
        )
        _add_result(case, job)
    _count(suite)
    return suite


def _add_result(case: xml.Element, job: JobRow) -> None:
    if job.verdict == "PASSED":
        if job.caveats:
            xml.SubElement(case, "system-out").text = _text(reason(job))
        return
    if job.change == "known":
        xml.SubElement(case, "skipped", message=_text(f"FAILED as its baseline: {reason(job)}"))
        return
    tag = "failure" if job.verdict == "FAILED" else "error"
    message = _text(reason(job) or f"{job.verdict or job.state}, on {job.board or 'no board'}")
    change = f" ({job.change})" if job.change else ""
    mark = xml.SubElement(case, tag, message=message + change, type=job.verdict or INCONCLUSIVE)
    mark.text = message


def _count(suite: xml.Element) -> None:
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))


def _text(text: str) -> str:
    """Returns the text with U+FFFD in place of characters that XML does not allow."""
    return NOT_XML.sub("\ufffd", text)
