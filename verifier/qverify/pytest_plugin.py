"""A plugin of pytest (entry point `qverify`): assert that a board computes what the host says it should.

    def test_detector(assert_matches):
        assert_matches(["quant.onnx", "model.bin"], inputs="photo.jpg")

`pytest --qverify-board BOARD` says which board, `--qverify-reports DIR` keeps a report of every call. Nothing of qverify is
imported before the fixture is used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qverify.api.results import Report

FORMATS = ("html", "json")  # of --qverify-reports
NO_BOARD = "no board: give pytest --qverify-board BOARD, qverify_board in pytest's configuration, or board=..."


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("qverify", "boards against the host (qverify)")
    group.addoption("--qverify-board", metavar="BOARD", help="the board of assert_matches, addressed as qverify -b")
    group.addoption("--qverify-reports", metavar="DIR", help="write the report of every assert_matches there")
    parser.addini("qverify_board", "the board of assert_matches where --qverify-board is not given")


@pytest.fixture
def qverify_board(request: pytest.FixtureRequest) -> str | None:
    """The board of --qverify-board, else of the ini option; None where neither is given."""
    config = request.config
    board: str | None = config.getoption("--qverify-board") or config.getini("qverify_board") or None
    return board


@pytest.fixture
def assert_matches(request: pytest.FixtureRequest, qverify_board: str | None) -> Callable[..., Report]:
    """A function that runs qverify.verify and fails the test unless the verdict is PASSED: assert_matches(models,
    board=None, **options). board: None for qverify_board. It returns the report."""
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
        report, mistake = None, ""
        try:
            made = qverify.verify(models, board=board, **options)
            request.node.user_properties.extend(_attach(made, request, calls))  # record_property warns with xunit2
            report = made
        except (qverify.errors.QVerifyError, OSError) as error:
            mistake = f"qverify: {error}"
        if report is None:  # not within `except`: pytest would print the errors that led to this one, too
            pytest.fail(mistake, pytrace=False)
        if not report.passed:
            pytest.fail(describe(report), pytrace=False)
        return report

    return check


def describe(report: Report) -> str:
    """Returns why a test failed: the verdict lines, and who is to blame."""
    from qverify.renderers.blamed import blame_line

    blamed = [blame_line(blame) for blame in report.document.blamed]
    return "\n".join([f"qverify: {report.verdict}", str(report), *blamed])


def _attach(report: Report, request: pytest.FixtureRequest, call: int) -> Iterator[tuple[str, object]]:
    """Writes the report's files, where they are asked for, and yields properties for JUnit's XML: the verdict, the node
    to blame, the files."""
    mark = "" if call == 1 else f"-{call}"
    yield f"qverify{mark}-verdict", report.verdict
    if report.blame is not None:
        yield f"qverify{mark}-blame", _without_controls(f"{report.blame.side} at {report.blame.node}")
    folder = request.config.getoption("--qverify-reports")
    if not folder:
        return
    folder = os.path.join(request.config.invocation_params.dir, folder)
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, f"{_file_name(request.node.nodeid)}{mark}")
    for name in FORMATS:
        path = report.save(f"{stem}.{name}", name)
        yield f"qverify{mark}-{name}", path
        request.node.add_report_section("call", "qverify", f"report: {path}")


def _file_name(node: str) -> str:
    """Returns a test's name as a file's; with a digest where it was cut or changed, so that no two are one."""
    from hashlib import sha256

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", node).strip("-.")[:100]
    return f"{name}-{sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _without_controls(text: str) -> str:
    from qverify.printable import printable

    return printable(text)
