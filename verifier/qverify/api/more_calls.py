"""Further commands as functions: quantize, inputs diff, report diff, suites."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Unpack

from qverify.api.arrays import input_files
from qverify.api.calls import documented_errors
from qverify.api.cancel import cancellable
from qverify.api.options import InputsDiffOptions, Path, Progress, QuantizeOptions, with_options
from qverify.api.results import Report
from qverify.api.tool_results import InputsDiff, Quantized, ReportDiff, Suite
from qverify.cli.python_options import parse_command


@with_options("quantize", QuantizeOptions)
def quantize(
    model: Path,
    output: Path,
    *,
    inputs: Any = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    **options: Unpack[QuantizeOptions],
) -> Quantized:
    """Quantizes a float ONNX, as `qverify quantize MODEL -o OUTPUT -i INPUTS` does, and returns what was written.

    Args:
        model, output: paths of the float ONNX and of the quantized one.
        inputs: the calibration inputs, as for verify.
        progress, cancel: as for verify.
        options: the options of the command; `stated` is --from, files of a vendor's toolkit, and `engine` is --with.

    Raises UsageError or BadFileError like verify."""
    with documented_errors(), input_files(inputs) as fed, cancellable(cancel, progress) as watch:
        keywords = {"output": output, "inputs": fed.files, **options}
        made = parse_command("quantize", [os.fspath(model)], keywords).job(watch)
        return Quantized(os.fspath(output), made)


@with_options("inputs_diff", InputsDiffOptions)
def inputs_diff(
    a: Path,
    b: Path,
    *,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    **options: Unpack[InputsDiffOptions],
) -> InputsDiff:
    """Compares the bytes that the device fed (b) with those that it should have fed (a), as `qverify inputs diff A B` does,
    and returns the mistakes that reproduce them. progress, cancel: as for verify. options: those of the command, such as
    description, and seconds for the search."""
    from qverify.session.inputs import compare_inputs

    with documented_errors(), cancellable(cancel, progress) as watch:
        parsed = parse_command("inputs_diff", [os.fspath(a), os.fspath(b)], options)
        intended, captured, description, seconds = parsed.job
        frames = compare_inputs.compare(intended, captured, description, seconds, watch)
        return InputsDiff(os.fspath(a), os.fspath(b), frames)


def report_diff(a: Path | Report, b: Path | Report) -> ReportDiff:
    """Compares two runs, a before b, as `qverify report diff A B` does. a, b: reports, or paths of JSON reports, captures or
    bundles."""
    from qverify.report.compare_reports import compare_reports
    from qverify.session.offline.open_report import open_report

    with documented_errors():
        before, now = (run.document if isinstance(run, Report) else open_report(os.fspath(run)) for run in (a, b))
        names = [name if isinstance(run, Report) else os.fspath(run) for run, name in ((a, "a"), (b, "b"))]
        return ReportDiff(compare_reports(before, now, names[0], names[1]))


def suite(
    path: Path,
    *,
    labels: Mapping[str, str] | None = None,
    server: str | None = None,
    token: str | None = None,
    database: str = "",
    artifacts: str = "",
) -> Suite:
    """Runs every job of a suite, as `qverify suite run SUITE.TOML` does, and returns its report.

    Args:
        path: of suite.toml.
        labels: labels of this run, such as {"firmware": "1.2"}.
        server, token: address of a farm of `qverify serve`, whose boards run it, and its token (by default QVERIFY_TOKEN
            or that of `qverify login`).
        database, artifacts: of a suite that runs here, as for the command.

    Raises UsageError, with a line for each mistake in the file, and BoardError if the server cannot be reached."""
    from qverify.errors import UsageError

    if server is None and token is not None:
        raise UsageError("token: it is that of a server; give server, too")
    if server is not None and (database or artifacts):
        raise UsageError("database, artifacts: they are of a suite that runs here; leave them or server out")
    given = {str(key): str(value) for key, value in (labels or {}).items()}
    with documented_errors():
        if server is not None:
            run = _farm("suite_server").run_on_server
            return Suite(run(os.fspath(path), server, token, given, quiet=True))
        run = _farm("suite_work").run_suite
        return Suite(run(os.fspath(path), database, artifacts, given, None, (None, None, None), quiet=True))


def _farm(name: str) -> Any:
    """Returns a module of the farm, a higher layer, which is loaded by name. Raises MissingExtraError without its libraries."""
    from qverify.cli.command_modules import missing_extra

    try:
        return import_module(f"qverify_farm.cli.{name}")
    except ModuleNotFoundError as error:
        raise missing_extra("suite()", error) or error from None
