"""Estimates bytes and seconds of a run over a link, before any board is touched. The bytes are counted in a rehearsal
on this host; the seconds follow from the link's assumed speed, without the board's computing time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.input_options import input_options
from qverify.cli.numbers import Finite
from qverify.cli.reporting import require_writable
from qverify.cli.view_options import screen

if TYPE_CHECKING:
    from qverify.inputs.sources import InputRequest


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
@input_options
def command(
    models: str,
    boards: tuple[str, ...],
    machine: str | None,
    bytes_per_s: float | None,
    json_path: str | None,
    inputs: InputRequest,
) -> int:
    import json
    from dataclasses import asdict

    from qverify.files import write_text
    from qverify.renderers import plan_table
    from qverify.session.other_jobs.plan import plan

    if json_path is not None and json_path != "-":
        require_writable("--json", json_path)
    rows = plan([p for p in models.split(",") if p], list(boards), inputs, machine, bytes_per_s)
    if json_path != "-":
        click.echo(plan_table.render(rows, screen()))
    if json_path:
        text = json.dumps([asdict(r) for r in rows], indent=1) + "\n"
        if json_path == "-":
            click.echo(text, nl=False)
        else:
            write_text(text, json_path)
    return 0
