"""Options that the suite commands share: the database, the artifacts, the workers and the reports to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from qverify_farm.suites.suite_report import SuiteReport

SHORT_OPTIONS = {"json": "", "junit": "for CI systems", "html": "one page", "markdown": "a comment for a merge request"}
EXIT_STATUS = {"PASSED": 0, "FAILED": 1, "INCONCLUSIVE": 3}


@dataclass(frozen=True, slots=True)
class SuiteOutputs:
    """The reports to write. files: format and path of each; the path "-" is standard output."""

    files: tuple[tuple[str, str], ...]

    def save(self, report: SuiteReport) -> None:
        """Writes every report, each completely or not at all. Raises the error of the first that could not be written, after the
        others are there."""
        from qverify.cli.reporting import each_or_first_error
        from qverify.renderers.report_text import write_report

        from qverify_farm.suites.formats import renderer

        each_or_first_error(lambda name, path: write_report(renderer(name)(report), path), self.files)

    def show(self, report: SuiteReport) -> None:
        """Prints the report as text, unless it goes to standard output in another format."""
        from qverify_farm.suites.formats.text import render

        if not any(path == "-" for _, path in self.files):
            click.echo(render(report), nl=False)


def output_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds --json, --junit, --html, --markdown and --report. The command gets them as `outputs`; they are checked before
    anything runs."""

    @wraps(command)
    def wrapper(**others: Any) -> int:
        short_values = {name: others.pop(f"{name}_path") for name in SHORT_OPTIONS}
        reports = [_parse_report(text) for text in others.pop("report")]
        reports += [(name, path) for name, path in short_values.items() if path is not None]
        return command(outputs=_check_reports(reports), **others)

    decorated: Callable[..., int] = wrapper
    for name, purpose in reversed(SHORT_OPTIONS.items()):
        text = f"{purpose}: " if purpose else ""
        option = click.option(f"--{name}", f"{name}_path", metavar="FILE", help=f"{text}short for --report {name}=FILE")
        decorated = option(decorated)
    formats = ", ".join(SHORT_OPTIONS)
    text = f"also write the report to a file (FORMAT: {formats}; - for stdout); may be repeated"
    return click.option("--report", "report", multiple=True, metavar="FORMAT=FILE", help=text)(decorated)


def _parse_report(text: str) -> tuple[str, str]:
    from qverify_farm.suites.formats import FORMATS, OTHER_NAMES

    name, equals, path = text.partition("=")
    name = OTHER_NAMES.get(name, name)
    if not equals or name not in FORMATS:
        raise click.UsageError(f"--report {text[:80]}: wanted FORMAT=FILE with a format of {', '.join(FORMATS)}")
    return name, path


def _check_reports(reports: Sequence[tuple[str, str]]) -> SuiteOutputs:
    import os

    from qverify.files import check_writable

    real_paths = [path if path == "-" else os.path.realpath(path) for _, path in reports]
    for (name, path), real_path in zip(reports, real_paths, strict=True):
        if not path:
            raise click.UsageError(f"an empty path for {name} (an unset shell variable?)")
        if real_paths.count(real_path) > 1:
            raise click.UsageError(f"two reports go to {path}; give each its own path")
        if path != "-":
            check_writable(path)
    return SuiteOutputs(tuple(reports))


def database_option(command: Callable[..., int]) -> Callable[..., int]:
    text = "SQLite file or postgresql:// URL  [default: $QVERIFY_DATABASE, ~/.local/state/qverify/farm.db]"
    return click.option("--database", default="", envvar="QVERIFY_DATABASE", metavar="URL", help=text)(command)


def artifacts_option(command: Callable[..., int]) -> Callable[..., int]:
    text = (
        "folder or URL of files and reports  [default: $QVERIFY_ARTIFACTS, the folder artifacts beside an SQLite database, "
        "~/.local/state/qverify/artifacts]"
    )
    return click.option("--artifacts", default="", envvar="QVERIFY_ARTIFACTS", metavar="URL", help=text)(command)


def workers_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds --workers and the options with its TLS files. The command gets them as workers, tls_ca, tls_cert and tls_key."""
    for name, purpose in (("key", "private key"), ("cert", "certificate"), ("ca", "authority's certificate")):
        command = click.option(f"--tls-{name}", metavar="FILE", help=f"{purpose}, for tls://")(command)
    text = (
        "address of the scheduler of `qverify worker` (tcp://127.0.0.1:8786, tls://HOST:PORT)  [default: this process]"
    )
    return click.option("--workers", metavar="ADDRESS", help=text)(command)
