"""Runs many jobs over many boards: the models, inputs and boards of suite.toml, with one verdict. SUITES.md of the sources
describes the file."""

from __future__ import annotations

import click
from click.core import ParameterSource
from qverify.cli.say_line import say

from qverify_farm.cli.suite_options import (
    EXIT_STATUS,
    SuiteOutputs,
    artifacts_option,
    database_option,
    output_options,
    workers_options,
)


@click.group(help=__doc__)
def command() -> None:
    pass


def _labels(words: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if malformed := next(
        (word for word, (key, equals, _) in zip(words, pairs, strict=True) if not key or not equals), None
    ):
        raise click.UsageError(f"--label {malformed[:80]}: wanted KEY=VALUE, as firmware=1.2")
    return {key[:100]: value[:200] for key, _, value in pairs}


RUN_OR_NEWEST = click.argument("id", metavar="[ID]", default="")
LABEL = click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="label of this run, such as firmware=1.2; may be repeated",
)


@command.command()
@click.argument("suite", metavar="SUITE.TOML")
@output_options
@database_option
@artifacts_option
@workers_options
@click.option(
    "--server", metavar="URL", help="run it on the farm of `qverify serve` there; boards are those of the farm"
)
@click.option("--token", metavar="TOKEN", help="of --server  [default: QVERIFY_TOKEN, or that of qverify login URL]")
@LABEL
def run(
    suite: str,
    outputs: SuiteOutputs,
    database: str,
    artifacts: str,
    workers: str | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    server: str | None,
    token: str | None,
    labels: tuple[str, ...],
) -> int:
    """Run every job of a suite, and wait for its verdict. The exit status is as for the main job."""
    if server is None and token is not None:
        raise click.UsageError("--token is that of a server; give --server URL, too")
    if server is not None:
        from qverify_farm.cli.suite_server import run_on_server

        source = click.get_current_context().get_parameter_source
        here = ("database", "artifacts", "workers", "tls_ca", "tls_cert", "tls_key")
        if name := next((name for name in here if source(name) is ParameterSource.COMMANDLINE), ""):
            raise click.UsageError(f"--{name.replace('_', '-')} is of a suite that runs here; leave it or --server out")
        return _finish(run_on_server(suite, server, token, _labels(labels)), outputs)
    from qverify_farm.cli.suite_work import run_suite

    report = run_suite(suite, database, artifacts, _labels(labels), workers, (tls_ca, tls_cert, tls_key))
    return _finish(report, outputs)


@command.command()
@RUN_OR_NEWEST
@output_options
@database_option
@artifacts_option
@workers_options
def resume(
    id: str,
    outputs: SuiteOutputs,
    database: str,
    artifacts: str,
    workers: str | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> int:
    """Run the unfinished jobs of a run after an interruption, a crash, or a suite_timeout; without ID: of the newest run that has
    some and was not cancelled by a user or fail_fast. With the ID of a cancelled run, its cancelled jobs run."""
    from qverify_farm.cli.suite_work import resume_run

    return _finish(resume_run(id, database, artifacts, workers, (tls_ca, tls_cert, tls_key)), outputs)


def _finish(report: object, outputs: SuiteOutputs) -> int:
    """Writes and shows a report, and returns its exit status. Raises KeyboardInterrupt if the run was interrupted."""
    from qverify_farm.cli.suite_work import say_interrupted, say_timed_out
    from qverify_farm.suites.suite_report import SuiteReport

    assert isinstance(report, SuiteReport)
    if report.state == "running":
        outputs.save(report)
        say_interrupted(report)
        raise KeyboardInterrupt
    outputs.show(report)
    outputs.save(report)
    say_timed_out(report)
    return EXIT_STATUS[report.verdict]


@command.command()
@click.argument("suite", metavar="SUITE.TOML")
@click.option("--json", "as_json", is_flag=True, help="print the jobs as JSON")
def plan(suite: str, as_json: bool) -> int:
    """Check a suite and list its jobs; nothing runs."""
    from qverify_farm.cli.suite_plan import show_plan

    show_plan(suite, as_json)
    return 0


@command.command()
@RUN_OR_NEWEST
@database_option
def status(id: str, database: str) -> int:
    """Show the progress of a run; without ID: of the newest. Exit status 3 while it has no verdict."""
    return _show_report(id, database, SuiteOutputs(()))


@command.command()
@RUN_OR_NEWEST
@output_options
@database_option
def report(id: str, outputs: SuiteOutputs, database: str) -> int:
    """Write a run's report again, in any format; without ID: that of the newest run."""
    return _show_report(id, database, outputs)


def _show_report(id: str, database: str, outputs: SuiteOutputs) -> int:
    from qverify_farm.cli.suite_work import opened_database, report_of, say_timed_out, say_unfinished
    from qverify_farm.store.boards import all_boards
    from qverify_farm.store.jobs import jobs_of
    from qverify_farm.store.runs import find_run
    from qverify_farm.suites.board_waits import lines_of_run

    with opened_database(database) as farm:
        with farm.read() as session:
            suite_run = find_run(session, id)
            waits = lines_of_run(suite_run, jobs_of(session, suite_run.id), all_boards(session))
        report = report_of(farm, suite_run.id)
    outputs.show(report)
    for line in waits:
        say(f"qverify: {line}", err=True)
    outputs.save(report)
    if report.state == "running":
        say_unfinished(report)
    say_timed_out(report)
    return EXIT_STATUS[report.verdict] if report.state != "running" or report.verdict == "FAILED" else 3


@command.command(name="list")
@database_option
@click.option("-n", "limit", type=click.IntRange(1, 1000), default=20, help="how many  [default: 20]")
def list_command(database: str, limit: int) -> int:
    """List the newest runs."""
    from qverify_farm.cli.suite_plan import show_runs

    show_runs(database, limit)
    return 0


@command.command()
@click.argument("id", metavar="ID")
@database_option
def cancel(id: str, database: str) -> int:
    """Cancel the unfinished jobs of a run; the others keep their results."""
    from qverify_farm.cli.suite_plan import cancel_by_id

    cancel_by_id(id, database)
    return 0


@command.command()
@RUN_OR_NEWEST
@database_option
def baseline(id: str, database: str) -> int:
    """Make a run's verdicts the baseline of its suite (key `baseline`); without ID: those of the newest run."""
    from qverify_farm.cli.suite_plan import keep_baseline

    keep_baseline(id, database)
    return 0


@command.command()
@click.argument("suite", metavar="SUITE.TOML")
@click.option("--list", "versions", metavar="FILE", help="versions, the oldest first, one a line")
@click.option(
    "--from-matrix",
    metavar="FILE.json",
    help="a matrix of qverify report matrix --json whose columns are versions, in the place of --list, or with it",
)
@click.option(
    "--cell",
    metavar="ROW,COLUMN",
    help="of that matrix: search from the last column of the row with another verdict to it",
)
@click.option(
    "--flash", required=True, metavar="COMMAND", help="puts a version on the boards; {version} is the version"
)
@click.option("--flash-timeout", type=click.FloatRange(1, 86400), default=1800.0, metavar="SECONDS")
@click.option("--json", "json_path", metavar="FILE", help="also write the result as JSON")
@database_option
@artifacts_option
def bisect(
    suite: str,
    versions: str | None,
    from_matrix: str | None,
    cell: str | None,
    flash: str,
    flash_timeout: float,
    json_path: str | None,
    database: str,
    artifacts: str,
) -> int:
    """Find the first version with which a suite is FAILED, by running the suite on versions between a good and a bad one."""
    from qverify_farm.cli.suite_bisect import bisect_versions

    if (from_matrix is None) != (cell is None):
        raise click.UsageError("--from-matrix and --cell belong together; give both")
    if versions is None and from_matrix is None:
        raise click.UsageError("which versions? Give --list FILE, or --from-matrix M.json --cell ROW,COLUMN")
    of_cell = (from_matrix, cell) if from_matrix is not None and cell is not None else None
    return bisect_versions(suite, versions, of_cell, flash, flash_timeout, json_path, database, artifacts)


@command.command()
def schema() -> int:
    """Print the JSON Schema of --json."""
    from qverify_farm.suites.schema import schema_text

    click.echo(schema_text())
    return 0
