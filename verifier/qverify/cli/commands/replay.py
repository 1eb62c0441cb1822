"""Judges what a bundle's run.sh wrote on the board, without the board: reference and simulator run here on the bundle's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.judging import judging, shown

if TYPE_CHECKING:
    from qverify.compare.options import Options


@click.command(help=__doc__)
@click.argument("bundle", type=click.Path(exists=True, file_okay=False))
@click.option("--dump", type=click.Path(exists=True), help="folder or tar that came back  [default: BUNDLE/dump]")
@click.option("-m", "--model", "models", help="the quantized ONNX, where the bundle was packed without")
@click.option("--run-sim", "-s", default=True, type=click.BOOL, show_default=True, help="run the simulator")
@click.option("--json", "json_path", metavar="FILE", help="write the report as JSON (- for stdout)")
@judging
def command(
    bundle: str, dump: str | None, models: str | None, run_sim: bool, json_path: str | None, options: Options
) -> int:
    from qverify.cli.live_progress import bars
    from qverify.session.replay import Replay, replay

    paths = [p for p in (models or "").split(",") if p]
    with bars() as watch:
        outcome = replay(Replay(bundle, dump, paths, run_sim, options), watch)
    return shown(outcome, options.dump_all, json_path)
