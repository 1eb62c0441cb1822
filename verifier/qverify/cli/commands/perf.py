"""Times each node of a model on a board: median, lowest and highest over repeated runs. Nothing is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.json_document import check_document, write_document
from qverify.cli.takes import takes
from qverify.cli.view_options import screen
from qverify.options.commands import INPUTS, LINK, ONE_BOARD, RUNNERS

if TYPE_CHECKING:
    from qverify.options.given import Given


@click.command(help=__doc__)
@click.option("-m", "--model", "models", required=True, help="comma list: quant.onnx, model.bin")
@takes(ONE_BOARD)
@click.option("--runs", type=click.IntRange(1, 100_000), default=20, show_default=True, help="runs that count")
@click.option(
    "--warm-up",
    type=click.IntRange(1, 10_000),
    default=2,
    show_default=True,
    help="runs before these; they do not count",
)
@click.option(
    "--top", type=click.IntRange(1), help="show this many nodes, the slowest first; all in running order when not given"
)
@click.option("--json", "json_path", metavar="FILE", help="write all times as JSON; - for stdout, without the table")
@takes(*INPUTS, *LINK, *RUNNERS)
def command(
    models: str,
    runs: int,
    warm_up: int,
    top: int | None,
    json_path: str | None,
    given: Given,
) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.renderers import perf_table
    from qverify.session.other_jobs.perf import PerfRequest, perf
    from qverify.session.requests.inputs import read_inputs
    from qverify.session.requests.sides import read_link, read_runner

    check_document(json_path)
    inputs, (deadline_s, reach) = read_inputs(given), read_link(given)
    runner = read_runner(given, reach)
    request = PerfRequest(
        [p for p in models.split(",") if p], given["board"], inputs, runs, warm_up, deadline_s, reach, runner
    )
    with progress_bars() as watch:
        result = perf(request, None if watch is None else lambda done, total: watch("runs", done, total))
    if json_path != "-":
        click.echo(perf_table.render(result, top, screen()))
    write_document(result.document(), json_path)
    return 0
