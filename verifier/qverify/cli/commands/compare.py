"""Compares two folders of .npy files (as qverify infer writes), two .npz files, captures, or with -m dumps of run.sh: every tensor, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.judging import judging, shown

if TYPE_CHECKING:
    from qverify.compare.options import Options


@click.command(help=__doc__)
@click.argument("a", type=click.Path(exists=True))
@click.argument("b", type=click.Path(exists=True))
@click.option("-m", "--model", help="model.bin, whose layout raw .bin dumps are in")
@click.option("--side", default="", help="of captures: reference, simulator or board  [default: board]")
@click.option("--frame", type=click.IntRange(0), default=0, show_default=True, help="of captures")
@click.option("--json", "json_path", metavar="FILE")
@judging
def command(a: str, b: str, model: str | None, side: str, frame: int, json_path: str | None, options: Options) -> int:
    from dataclasses import replace

    from qverify.session.replay import compare_dumps
    from qverify.session.verify import Outcome

    report = compare_dumps(a, b, replace(options, given=True, dump_all=True), model, side, frame)
    return shown(Outcome(report, []), True, json_path)
