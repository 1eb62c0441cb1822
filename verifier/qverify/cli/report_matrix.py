"""`qverify report matrix`: many runs beside each other, as rows and columns of facts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from qverify.cli.reporting import emit, read_reports
from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.cli.view_options import screen
from qverify.extras import import_farm
from qverify.options import output
from qverify.options.commands import REPORT
from qverify.report.stated_facts import OWN, USUAL, parse_facts

if TYPE_CHECKING:
    from qverify.options.given import Given

FARM = "report matrix of a farm"
EPILOG = f"""Facts: {", ".join((*OWN, *USUAL))}, and every other key that was stated with verify --fact KEY=VALUE, as a tag of the
board in boards.toml, as a version of the runner's ledger, or as a label of a suite's run. The board of a matrix that reads a farm is
its name there. In a cell the newest run of each model, inputs and board counts; of these the worst verdict is shown, and
disagreement is said.

Exit status: 0 every row has one verdict in all its columns; 1 the verdict of a row changed, to the better or to the worse; 3 not
known: a row has no run in the last column, a cell has no verdict, the runs of a cell disagree, there is one column only, or a file
could not be read (--skip-unreadable); 2 usage, or a bad file. It says whether verdicts change, not whether they are PASSED."""


def _names(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names) or len(set(names)) < len(names):
        raise click.UsageError(f"--{param.name} {text}: wanted names of facts with commas between them, each once")
    return names


def _facts(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    try:
        return dict(parse_facts(texts))
    except ValueError as error:
        raise click.UsageError(f"--label {error}") from error


def _filters(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next(
        (text for text, (key, equals, _) in zip(texts, pairs, strict=True) if not key or not equals), None
    ):
        raise click.UsageError(f"--where {wrong[:80]}: wanted FACT=VALUE, as board=desk")
    return tuple((key, value) for key, _, value in pairs)


@click.command(
    help="Many runs beside each other: JSON reports (also .json.gz), captures, bundles, folders of these, runs of suites, and the "
    "history of a farm. Rows and columns are facts of the runs; a cell has verdict, worst tensor, distance, task numbers and "
    "time; what changed from column to column is marked, with what differs between the two stacks",
    epilog=EPILOG,
)
@click.argument("paths", metavar="[REPORT]...", nargs=-1, type=click.Path(exists=True))
@click.option("--rows", callback=_names, metavar="FACT,...", help="facts of the rows  [default: model,inputs]")
@click.option(
    "--columns",
    callback=_names,
    metavar="FACT,...",
    help="facts of the columns  [default: those of board,firmware,toolchain,qverify that differ]",
)
@click.option(
    "--order",
    type=click.Choice(("version", "date")),
    default="version",
    show_default=True,
    help="of columns: by their names as versions (1.9 before 1.10), or by the date of their oldest runs",
)
@click.option(
    "--where",
    multiple=True,
    callback=_filters,
    metavar="FACT=VALUE",
    help="only these runs; may be repeated, all must hold",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_facts,
    metavar="KEY=VALUE",
    help="a fact of the runs that do not state it themselves, such as firmware=1.2 of older reports; may be repeated",
)
@click.option(
    "--labels",
    "labels_file",
    metavar="FILE.csv",
    help="facts of reports by file: a first line `file,FACT,...`, then a line for each; one that contradicts a report is refused",
)
@click.option(
    "--path-labels",
    metavar="TEMPLATE",
    help="facts in the name of a folder or file, such as fw-{firmware}_tc-{toolchain}; one that contradicts a report is refused",
)
@click.option(
    "--skip-unreadable",
    is_flag=True,
    help="list what cannot be read, and show the others; the exit status is not 0 then",
)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="ID|NAME|all",
    help="runs of suites in --database, or on --server; may be repeated",
)
@click.option(
    "--database",
    metavar="URL",
    default="",
    envvar="QVERIFY_DATABASE",
    help="of --suite  [default: that of qverify suite]",
)
@click.option(
    "--artifacts",
    metavar="URL",
    default="",
    envvar="QVERIFY_ARTIFACTS",
    help="of --suite  [default: that of qverify suite]",
)
@click.option("--server", metavar="URL", help="also the history of the farm of `qverify serve` there")
@click.option("--token", metavar="TOKEN", help="of --server  [default: QVERIFY_TOKEN, or that of qverify login URL]")
@click.option(
    "--limit",
    type=click.IntRange(1, 50_000),
    default=5000,
    show_default=True,
    help="newest jobs of --suite and --server",
)
@takes(output.ALL.but(help="list every row, change and fact"), output.VERBOSE, output.QUIET, *REPORT)
def matrix(
    paths: tuple[str, ...],
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    order: str,
    where: tuple[tuple[str, str], ...],
    labels: dict[str, str],
    labels_file: str | None,
    path_labels: str | None,
    skip_unreadable: bool,
    suites: tuple[str, ...],
    database: str,
    artifacts: str,
    server: str | None,
    token: str | None,
    limit: int,
    given: Given,
) -> int:
    from qverify.renderers import matrix_text
    from qverify.session.offline.make_matrix import make_matrix
    from qverify.session.offline.open_runs import open_runs, read_labels, read_path_labels

    reports = read_reports(given, "write_matrix")
    if not paths and not suites and server is None:
        raise click.UsageError("no report; wanted JSON reports, captures, folders of them, --suite ID, or --server URL")
    if token is not None and server is None:
        raise click.UsageError("--token is that of a server; give --server URL, too")
    source = click.get_current_context().get_parameter_source
    if server is not None and ParameterSource.COMMANDLINE in (source("database"), source("artifacts")):
        raise click.UsageError("--database and --artifacts are of suites that ran here; leave them or --server out")
    if labels_file is not None and path_labels is not None:
        raise click.UsageError("--labels and --path-labels are both given; give one")
    labels_of = read_labels(labels_file) if labels_file is not None else None
    labels_of = read_path_labels(path_labels) if path_labels is not None else labels_of
    opened = open_runs(paths, labels, skip_unreadable, labels_of)
    if server is not None:
        warn = partial(say, err=True)
        opened.runs += import_farm("client.history_runs", FARM).read_history(server, token, suites, limit, labels, warn)
    elif suites:
        opened.runs += import_farm("cli.suite_runs", FARM).read_suites(suites, database, artifacts, limit, labels)
    document = make_matrix(opened, rows, columns, where, order == "date")
    detail: Any = "quiet" if given["quiet"] else "verbose" if given["verbose"] else "normal"
    view = replace(screen(), every=given["every"], detail=detail)
    return emit(document, matrix_text.render(document, view), reports)
