"""Options that the suite commands share: where the database and the artifacts are, and what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from qverify_farm.suites.suite_report import SuiteReport

SHORT = {"json": "", "junit": "for CI systems", "html": "one page", "markdown": "a comment for a merge request"}
EXIT = {"PASSED": 0, "FAILED": 1, "INCONCLUSIVE": 3}


@dataclass(frozen=True, slots=True)
class SuiteOutputs:
    """files: format and path of each report to write; "-" is standard output."""

    files: tuple[tuple[str, str], ...]

    def save(self, report: SuiteReport) -> None:
        """Writes every report, each whole or not at all."""
        from qverify.renderers.report_text import write_report

        from qverify_farm.suites.formats import renderer

        for name, path in self.files:
            write_report(renderer(name)(report), path)

    def show(self, report: SuiteReport) -> None:
        """Prints the report, unless another form of it goes to stdout."""
        from qverify_farm.suites.formats.text import render

        if not any(path == "-" for _, path in self.files):
            click.echo(render(report), nl=False)


def output_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds --json, --junit, --html, --markdown and --report; the command gets them as `outputs`, checked before anything
    runs."""

    @wraps(command)
    def wrapper(**others: Any) -> int:
        short = {name: others.pop(f"{name}_path") for name in SHORT}
        asked = [_named(text) for text in others.pop("report")]
        asked += [(name, path) for name, path in short.items() if path is not None]
        return command(outputs=_checked(asked), **others)

    decorated: Callable[..., int] = wrapper
    for name, what in reversed(SHORT.items()):
        text = f"{what}: " if what else ""
        option = click.option(f"--{name}", f"{name}_path", metavar="FILE", help=f"{text}short for --report {name}=FILE")
        decorated = option(decorated)
    formats = ", ".join(SHORT)
    text = f"also write the report to a file (FORMAT: {formats}; - for stdout); may be repeated"
    return click.option("--report", "report", multiple=True, metavar="FORMAT=FILE", help=text)(decorated)


def _named(text: str) -> tuple[str, str]:
    from qverify_farm.suites.formats import FORMATS, OTHER_NAMES

    name, equals, path = text.partition("=")
    name = OTHER_NAMES.get(name, name)
    if not equals or name not in FORMATS:
        raise click.UsageError(f"--report {text[:80]}: wanted FORMAT=FILE with a format of {', '.join(FORMATS)}")
    return name, path


def _checked(asked: Sequence[tuple[str, str]]) -> SuiteOutputs:
    import os

    from qverify.files import check_writable

    places = [path if path == "-" else os.path.realpath(path) for _, path in asked]
    for (name, path), place in zip(asked, places, strict=True):
        if not path:
            raise click.UsageError(f"an empty path for {name} (an unset shell variable?)")
        if places.count(place) > 1:
            raise click.UsageError(f"two reports go to {path}; give each its own path")
        if path != "-":
            check_writable(path)
    return SuiteOutputs(tuple(asked))


def database_option(command: Callable[..., int]) -> Callable[..., int]:
    text = "SQLite file or postgresql:// URL  [default: $QVERIFY_DATABASE, ~/.local/state/qverify/farm.db]"
    return click.option("--database", default="", envvar="QVERIFY_DATABASE", metavar="URL", help=text)(command)


def artifacts_option(command: Callable[..., int]) -> Callable[..., int]:
    text = "folder or URL of files and reports  [default: $QVERIFY_ARTIFACTS, ~/.local/state/qverify/artifacts]"
    return click.option("--artifacts", default="", envvar="QVERIFY_ARTIFACTS", metavar="URL", help=text)(command)


def workers_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds --workers and the files of its TLS; the command gets them as workers, tls_ca, tls_cert and tls_key."""
    for name, what in (("key", "private key"), ("cert", "certificate"), ("ca", "authority's certificate")):
        command = click.option(f"--tls-{name}", metavar="FILE", help=f"{what}, for tls://")(command)
    text = (
        "address of the scheduler of `qverify worker` (tcp://127.0.0.1:8786, tls://HOST:PORT)  [default: this process]"
    )
    return click.option("--workers", metavar="ADDRESS", help=text)(command)
