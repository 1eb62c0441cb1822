"""Times each node of a model on a board: median, lowest and highest over repeated runs. Nothing is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.board_options import board_option, link_options
from qverify.cli.input_options import input_options
from qverify.cli.reporting import require_writable
from qverify.cli.runner_options import runner_options
from qverify.cli.view_options import screen

if TYPE_CHECKING:
    from qverify.inputs.sources import InputRequest


@click.command(help=__doc__)
@click.option("-m", "--model", "models", required=True, help="comma list: quant.onnx, model.bin")
@board_option(required=True)
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
@input_options
@link_options(runtime=False)
@runner_options
def command(
    models: str,
    board: str,
    runs: int,
    warm_up: int,
    top: int | None,
    json_path: str | None,
    inputs: InputRequest,
    deadline_s: float,
    reach: dict[str, str],
    runner: tuple[tuple[str, str], ...],
) -> int:
    import json

    from qverify.cli.live_progress import progress_bars
    from qverify.files import write_text
    from qverify.renderers import perf_table
    from qverify.session.other_jobs.perf import PerfRequest, perf

    if json_path is not None and json_path != "-":
        require_writable("--json", json_path)
    request = PerfRequest([p for p in models.split(",") if p], board, inputs, runs, warm_up, deadline_s, reach, runner)
    with progress_bars() as watch:
        result = perf(request, None if watch is None else lambda done, total: watch("runs", done, total))
    text = json.dumps(result.document(), indent=1) + "\n"
    if json_path == "-":
        click.echo(text, nl=False)
        return 0
    click.echo(perf_table.render(result, top, screen()))
    if json_path:
        write_text(text, json_path)
    return 0
