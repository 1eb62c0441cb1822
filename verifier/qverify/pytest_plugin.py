"""The pytest plugin (entry point `qverify`): asserts that a board computes the same as the host.

    def test_detector(assert_matches):
        assert_matches(["quant.onnx", "model.bin"], inputs="photo.jpg")

`pytest --qverify-board BOARD` names the board, `--qverify-reports DIR` writes a report of every call. Nothing of
qverify is imported before the fixture is used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qverify.api.results import Report

FORMATS = ("html", "json")  # that --qverify-reports writes
NO_BOARD = "no board: give pytest --qverify-board BOARD, qverify_board in pytest's configuration, or board=..."


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the plugin's command-line options and its ini option."""
    group = parser.getgroup("qverify", "boards against the host (qverify)")
    group.addoption("--qverify-board", metavar="BOARD", help="the board of assert_matches, addressed as qverify -b")
    group.addoption("--qverify-reports", metavar="DIR", help="write the report of every assert_matches there")
    parser.addini("qverify_board", "the board of assert_matches where --qverify-board is not given")


@pytest.fixture
def qverify_board(request: pytest.FixtureRequest) -> str | None:
    """The board given by --qverify-board, else by the ini option; None if neither is given."""
    config = request.config
    board: str | None = config.getoption("--qverify-board") or config.getini("qverify_board") or None
    return board


@pytest.fixture
def assert_matches(request: pytest.FixtureRequest, qverify_board: str | None) -> Callable[..., Report]:
    """A function assert_matches(models, board=None, **options) that calls qverify.verify, fails the test unless the
    verdict is PASSED, and returns the report. board: the board of the fixture qverify_board if None."""
    calls = 0

    def check(models: Any, board: Any = None, **options: Any) -> Report:
        nonlocal calls
        __tracebackhide__ = True
        import qverify

        board = qverify_board if board is None else board
        if board is None or (not isinstance(board, str) and not list(board)):
            pytest.fail(NO_BOARD, pytrace=False)
        calls += 1
        options.setdefault("drawings", bool(request.config.getoption("--qverify-reports")))
        report, failure = None, ""
        try:
            new_report = qverify.verify(models, board=board, **options)
            request.node.user_properties.extend(_attach(new_report, request, calls))  # record_property warns for xunit2
            report = new_report
        except (qverify.errors.QVerifyError, OSError) as error:
            failure = f"qverify: {error}"
        if report is None:  # outside `except`, because pytest would print the chain of exceptions, too
            pytest.fail(failure, pytrace=False)
        if not report.passed:
            pytest.fail(describe(report), pytrace=False)
        return report

    return check


def describe(report: Report) -> str:
    """Returns the message of a failed test: the verdict lines, and the side and node to blame."""
    from qverify.renderers.blamed import blame_line

    blamed = [blame_line(blame) for blame in report.document.blamed]
    return "\n".join([f"qverify: {report.verdict}", str(report), *blamed])


def _attach(report: Report, request: pytest.FixtureRequest, call: int) -> Iterator[tuple[str, object]]:
    """Writes the report's files if --qverify-reports was given, and yields (name, value) of each property for JUnit's
    XML: the verdict, the node to blame, the files. call: number of this call within the test, from 1 on."""
    suffix = "" if call == 1 else f"-{call}"
    yield f"qverify{suffix}-verdict", report.verdict
    if report.blame is not None:
        yield f"qverify{suffix}-blame", _without_controls(f"{report.blame.side} {report.blame.place}")
    folder = request.config.getoption("--qverify-reports")
    if not folder:
        return
    folder = os.path.join(request.config.invocation_params.dir, folder)
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, f"{_file_name(request.node.nodeid)}{suffix}")
    for name in FORMATS:
        path = report.save(f"{stem}.{name}", name)
        yield f"qverify{suffix}-{name}", path
        request.node.add_report_section("call", "qverify", f"report: {path}")


def _file_name(node: str) -> str:
    """Returns a file name for a test: its name, cut and with other characters replaced, and a digest that makes it
    unique."""
    from hashlib import sha256

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", node).strip("-.")[:100]
    return f"{name}-{sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _without_controls(text: str) -> str:
    from qverify.printable import printable

    return printable(text)
