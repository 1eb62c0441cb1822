"""Further commands as functions: quantize, inputs diff, outputs diff, report diff, report matrix, suites."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from qverify.api.arrays import input_files
from qverify.api.calls import documented_errors
from qverify.api.cancel import cancellable
from qverify.api.options import InputsDiffOptions, OutputsDiffOptions, QuantizeOptions
from qverify.api.results import Report
from qverify.api.signatures import Path, Progress, with_options
from qverify.api.tool_results import InputsDiff, OutputsDiff, Quantized, ReportDiff, ReportMatrix, Suite
from qverify.session.requests.parse_command import parse_command


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
        made = parse_command("quantize", [os.fspath(model)], keywords).job.run(watch)
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


@with_options("outputs_diff", OutputsDiffOptions)
def outputs_diff(
    reference: Path,
    device: Path,
    *,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    **options: Unpack[OutputsDiffOptions],
) -> OutputsDiff:
    """Compares what the device's application made of the final outputs (device) with what it should have made of them
    (reference: the outputs), as `qverify outputs diff REFERENCE DEVICE` does, and returns the mistakes that reproduce it.
    progress, cancel: as for verify. options: those of the command, such as decoder."""
    from qverify.session.outputs import compare_outputs

    with documented_errors(), cancellable(cancel, progress) as watch:
        request = parse_command("outputs_diff", [os.fspath(reference), os.fspath(device)], options).job
        return OutputsDiff(os.fspath(reference), os.fspath(device), request, compare_outputs.compare(request, watch))


def report_diff(a: Path | Report, b: Path | Report) -> ReportDiff:
    """Compares two runs, a before b, as `qverify report diff A B` does. a, b: reports, or paths of JSON reports, captures or
    bundles."""
    from qverify.report.compare_reports import compare_reports
    from qverify.session.offline.open_report import open_report

    with documented_errors():
        before, now = (run.document if isinstance(run, Report) else open_report(os.fspath(run)) for run in (a, b))
        names = [name if isinstance(run, Report) else os.fspath(run) for run, name in ((a, "a"), (b, "b"))]
        return ReportDiff(compare_reports(before, now, names[0], names[1]))


def report_matrix(
    paths: Sequence[Path],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    skip_unreadable: bool = False,
    by_date: bool = False,
) -> ReportMatrix:
    """Puts many runs beside each other, as `qverify report matrix REPORT...` does.

    Args:
        paths: of JSON reports, captures, bundles, and folders of them.
        rows, columns: names of facts; () for the usual ones.
        labels: facts of the runs that do not state them themselves.
        skip_unreadable: list what cannot be read in the document, instead of raising its error.
        by_date: columns in the order of their oldest runs, not of their versions.

    Raises BadFileError for what cannot be read, and UsageError for an unknown fact, no run, or too many cells."""
    from qverify.session.offline.make_matrix import make_matrix
    from qverify.session.offline.open_runs import open_runs

    with documented_errors():
        opened = open_runs([os.fspath(path) for path in paths], labels, skip_unreadable)
        return ReportMatrix(make_matrix(opened, tuple(rows), tuple(columns), by_date=by_date))


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
    from qverify.extras import import_farm

    if server is None and token is not None:
        raise UsageError("token: it is that of a server; give server, too")
    if server is not None and (database or artifacts):
        raise UsageError("database, artifacts: they are of a suite that runs here; leave them or server out")
    given = {str(key): str(value) for key, value in (labels or {}).items()}
    with documented_errors():
        if server is not None:
            run = import_farm("cli.suite_server", "suite()").run_on_server
            return Suite(run(os.fspath(path), server, token, given, quiet=True))
        run = import_farm("cli.suite_work", "suite()").run_suite
        return Suite(run(os.fspath(path), database, artifacts, given, None, (None, None, None), quiet=True))
