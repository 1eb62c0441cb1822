"""Estimates bytes and seconds of a run over a link, before any board is touched. The bytes are counted in a rehearsal
on this host; the seconds follow from the link's assumed speed, without the board's computing time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.json_document import check_document, write_document
from qverify.cli.takes import takes
from qverify.cli.view_options import screen
from qverify.options.as_click import Finite
from qverify.options.commands import INPUTS

if TYPE_CHECKING:
    from qverify.options.given import Given


@click.command(help=__doc__)
@click.option("-m", "--model", "models", required=True, help="comma list: quant.onnx, model.bin")
@click.option("-b", "--board", "boards", multiple=True, help="an address or a name; common links when not given")
@click.option(
    "--arch",
    "machine",
    help="machine whose agent is pushed (uname -m); the board's own where its address states it, else aarch64",
)
@click.option(
    "--rate",
    "bytes_per_s",
    type=Finite(1, 1e12),
    metavar="BYTES_PER_S",
    help="speed of the link, instead of the assumed one",
)
@click.option("--json", "json_path", metavar="FILE", help="write the plan as JSON; - for stdout")
@takes(*INPUTS)
def command(
    models: str,
    boards: tuple[str, ...],
    machine: str | None,
    bytes_per_s: float | None,
    json_path: str | None,
    given: Given,
) -> int:
    from dataclasses import asdict

    from qverify.renderers import plan_table
    from qverify.session.other_jobs.plan import plan
    from qverify.session.requests.inputs import read_inputs

    check_document(json_path)
    rows = plan([p for p in models.split(",") if p], list(boards), read_inputs(given), machine, bytes_per_s)
    if json_path != "-":
        click.echo(plan_table.render(rows, screen()))
    write_document([asdict(row) for row in rows], json_path)
    return 0
