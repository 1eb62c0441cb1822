"""The files of --report FORMAT=PATH, --json and the other options for reports, and the function that prints and writes a
report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import click

from qverify.cli.ci_annotations import annotate
from qverify.files import require_writable
from qverify.options import output
from qverify.options.commands import DRAWN_REPORT, REPORT
from qverify.options.given import Given
from qverify.options.parse import repeating_command

if TYPE_CHECKING:
    from qverify.renderers.text_view import TextView
    from qverify.report.difference import ReportDifference
    from qverify.report.document import ReportDocument
    from qverify.report.matrix.document import MatrixDocument
    from qverify.report.triage_document import TriageDocument
    from qverify.session.job import JobOutcome

    AnyDocument: TypeAlias = ReportDocument | TriageDocument | ReportDifference | MatrixDocument


OUTPUT_OPTIONS = tuple(
    option.flag for option in (*DRAWN_REPORT, output.NPZ)
)  # their values are paths of files to write
DRAWING_WRITERS = ("write", "write_triage")  # of reports that have drawings


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The files to which reports are written.

    Attributes:
        files: (name of the format, path) of each file.
        writer: name of the function by which a format's page writes this kind of report.
        command: the command line that makes the report again, "" if it is not known.
        plots: the folder of --plots, None without it.
    """

    files: tuple[tuple[str, str], ...] = ()
    writer: str = "write"
    command: str = ""
    plots: str | None = None

    @property
    def drawings(self) -> bool:
        """Whether a report draws tensors."""
        from qverify.renderers.formats import page

        return self.plots is not None or any(getattr(page(name), "DRAWS", False) for name, _ in self.files)

    @property
    def stdout_taken(self) -> bool:
        """Whether a report goes to stdout, which then contains nothing else."""
        return any(path == "-" for _, path in self.files)

    def check_other(self, path: str, option: str) -> None:
        """Raises UsageError if a report goes to the same file as another option. path: the value of that option."""
        if any(name != "-" and os.path.realpath(name) == os.path.realpath(path) for _, name in self.files):
            raise click.UsageError(f"{option} and a report go to {path}; give each its own path")

    def save(self, report: AnyDocument, stdout: bool = True) -> None:
        """Writes the report to every file. stdout: also write what goes to stdout, and the plots; False for a
        preliminary report. Raises UsageError for the first file that cannot be written, after the others are there."""
        from qverify.renderers.formats import page

        report.command = self.command
        files = [(name, path) for name, path in self.files if path != "-" or stdout]
        each_or_first_error(lambda name, path: getattr(page(name), self.writer)(report, path), files)
        if self.plots is not None and stdout:
            from qverify.renderers.drawings.plot_files import write_plots

            write_plots(cast("ReportDocument | TriageDocument", report), self.plots)


def each_or_first_error(write: Callable[[str, str], None], files: Iterable[tuple[str, str]]) -> None:
    """Calls write(format, path) for every file, and then raises the first UsageError that it raised."""
    from qverify.errors import UsageError

    errors = list[UsageError]()
    for name, path in files:
        try:
            write(name, path)
        except UsageError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def read_reports(given: Given, writer: str = "write") -> ReportFiles:
    """Returns the files to which the options send reports, checked before anything runs. writer: as in ReportFiles."""
    short = {o.flag.removeprefix("--"): given[o.name] for o in REPORT[1:] if given[o.name] is not None}
    files = _parse_files(given["report"], short)
    _check_writer(files, writer)
    plots = _check_plots(given["plots"]) if writer in DRAWING_WRITERS else None
    return ReportFiles(files, writer, repeating_command(given_words()), plots)


def _check_plots(folder: str | None) -> str | None:
    """Returns the folder of --plots. Raises UsageError or MissingExtraError if no plots could be written there."""
    from qverify.files import check_folder_writable
    from qverify.renderers.drawings.png import require

    if folder is None:
        return None
    if folder == "" or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise click.UsageError(f"--plots: wanted a folder, got {folder or 'nothing (an unset shell variable?)'}")
    check_folder_writable(folder)
    require()
    return folder


def given_words() -> list[str]:
    """Returns the words of the running command, with its name first; [] if it was not started by cli.main."""
    words = click.get_current_context().find_root().obj
    return list(words) if isinstance(words, (list, tuple)) else []


def _parse_files(texts: tuple[str, ...], short: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns format and path of each file. texts: the values of --report. short: the values of the options that have
    the name of a format. Raises UsageError if two reports go to one file, or one overwrites a file that the command
    reads."""
    files = [_parse_file(text) for text in texts]
    files += [_check_path(name, path, f"--{name}") for name, path in short.items()]
    real_paths = [path if path == "-" else os.path.realpath(path) for _, path in files]
    repeated = [path for at, (_, path) in enumerate(files) if real_paths[at] in real_paths[:at]]
    if repeated:
        raise click.UsageError(f"two reports go to {repeated[0]}; give each its own path")
    for _, path in files:
        require_no_input(path)
    return tuple(files)


def require_no_input(path: str, option: str = "a report") -> None:
    """Raises UsageError if the path is an existing file that a word of the command names as an input, because it would
    be overwritten."""
    if path == "-" or not os.path.exists(path):
        return
    words = given_words()
    at, input_words = 0, list[str]()
    while at < len(words):
        name, equals, value = words[at].partition("=")
        is_output = name in OUTPUT_OPTIONS
        at += 1 if equals or not is_output else 2
        input_words += [] if is_output else [words[at - 1], value]
    parts = {part for word in input_words for piece in word.split(",") for part in (piece, piece.partition(":")[2])}
    for part in filter(None, parts):
        inside = os.path.join(part, "capture.json")
        if any(os.path.exists(one) and os.path.samefile(one, path) for one in (part, inside)):
            raise click.UsageError(f"{option} would overwrite {path}, which the command reads; give another path")


def _check_writer(files: tuple[tuple[str, str], ...], writer: str) -> None:
    from qverify.renderers.formats import page

    lacking = next((name for name, _ in files if not hasattr(page(name), writer)), None)
    if lacking is not None:
        raise click.UsageError(f"--report {lacking}: this format cannot express the results of this command; use json")


def _parse_file(text: str) -> tuple[str, str]:
    """Returns format and path of FORMAT=PATH, or of a path with the suffix of a format. UsageError for any other
    text."""
    from qverify.closest_names import did_you_mean
    from qverify.renderers import formats

    name, equals, path = text.partition("=")
    if equals and name in formats.names():
        return _check_path(name, path, f"--report {text}")
    by_suffix = [n for n in formats.names() if text.endswith(formats.page(n).SUFFIX)]
    if len(by_suffix) == 1 and not (equals and name.isidentifier()):
        return _check_path(by_suffix[0], text, f"--report {text}")
    raise click.UsageError(
        f"--report {text}: wanted FORMAT=PATH; formats: {', '.join(formats.names())}{did_you_mean(name, formats.names())}"
    )


def _check_path(name: str, path: str, option: str) -> tuple[str, str]:
    """Returns format and path of the file to write; for a folder, that of a file in it. Raises UsageError for an empty
    path or a file that could not be written. option: for the message."""
    from qverify.renderers.formats import page

    if path == "":
        raise click.UsageError(f"{option}: the path is empty (an unset shell variable?)")
    if path == "-":
        return name, path
    if os.path.isdir(path):
        path = os.path.join(path, f"report{page(name).SUFFIX}")
    require_writable(option, path)
    return name, path


def emit(report: AnyDocument, text: str, reports: ReportFiles) -> int:
    """Prints the text, unless a report goes to stdout, then writes every report. Returns the exit status of the
    command."""
    if not reports.stdout_taken:
        click.echo(text)
    reports.save(report)
    annotate(report)
    return exit_status(report)


def emit_judged(outcome: JobOutcome, view: TextView, reports: ReportFiles) -> int:
    """Prints and writes the report of a capture or bundle that was judged again, as emit() does."""
    from qverify.renderers import frame_lines, terminal

    report = outcome.report
    text = frame_lines.render(report, view) if report.frames else terminal.render(report, outcome.finals, view)
    return emit(report, text, reports)


def exit_status(report: AnyDocument) -> int:
    """Returns the exit status for a result: 0 for PASSED, 1 for FAILED, 3 for INCONCLUSIVE; 2 if a frame could not be
    prepared and none FAILED. Triage and differences have their own rules."""
    from qverify.report.document import EXIT, ReportDocument

    if not isinstance(report, ReportDocument):
        return report.exit_status
    unprepared = any(row["verdict"] == "NOT RUN" and not row["board_lost"] for row in report.frames)
    return 2 if unprepared and report.verdict != "FAILED" else EXIT[report.verdict]
