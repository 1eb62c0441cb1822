"""Compares every tensor of two dumps by name: folders of .npy files (as qverify infer writes), .npz files, captures,
with -m dumps of run.sh and of qvrt infer, with --dtype or -m folders of raw NAME.bin files, and vendors' dumps,
recognised by their content or by --profile. Without B, A is a vendor's folder with the sides of one run (golden,
simulator, runtime), which are compared rung by rung. With -m, dumps that differ are located: the nodes of each are recomputed
from its own tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.dump_options import DTYPE, FRAME, LAYER_INFO, MAP
from qverify.cli.engine_options import QUANTIZATION
from qverify.cli.grouped_help import GroupedCommand
from qverify.cli.judging import judging_options
from qverify.cli.python_options import hand_over
from qverify.cli.reporting import ReportFiles, emit, report_options
from qverify.cli.view_options import view_options

if TYPE_CHECKING:
    from qverify.compare.options import Options
    from qverify.renderers.text_view import TextView

EPILOG = (
    """A tensor that one side lacks, or whose name, dtype or axes are not certain, counts as missing: never PASSED."""
)


EXAMPLES = (
    (
        "qverify compare host/ board.npz -m quant.onnx",
        "two dumps; the node that is wrong, recomputed from its own inputs",
    ),
    ("qverify compare snapshot/", "a vendor's ladder: float network, simulator, board"),
    (
        "qverify compare snapshot/golden snapshot/runtime --criteria rockchip",
        "two rungs, by the vendor's own thresholds",
    ),
)


class WithProfiles(GroupedCommand):
    """A command whose help lists, below the options, what each profile reads."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from qverify import profiles

        with formatter.section("Profiles (verifier/PROFILES.md of a clone)"):
            formatter.write_dl([(name, profiles.page(name).WANTED) for name in profiles.names()])
        super().format_epilog(ctx, formatter)


@click.command(cls=WithProfiles, help=__doc__, epilog=EPILOG, examples=EXAMPLES, page="docs/how-to/vendor-dumps.md")
@click.argument("a", type=click.Path(exists=True))
@click.argument("b", type=click.Path(exists=True), required=False)
@click.option(
    "-m", "--model", help="quant.onnx, model.bin or .tflite: layout of raw dumps, scales, names; recomputes nodes"
)
@QUANTIZATION
@click.option(
    "--profile", default="", metavar="NAME", help="vendor profile of both dumps  [default: recognised by content]"
)
@click.option("--profile-a", default="", metavar="NAME", help="vendor profile of dump A")
@click.option("--profile-b", default="", metavar="NAME", help="vendor profile of dump B")
@DTYPE
@LAYER_INFO
@click.option(
    "--side",
    default="",
    help="captures and --npz: reference, simulator or board  [default: board]; rockchip, axera: a folder; stm32: m or c",
)
@click.option("--side-a", default="", metavar="SIDE", help="side of dump A  [default: --side]")
@click.option("--side-b", default="", metavar="SIDE", help="side of dump B  [default: --side]")
@FRAME
@MAP
@click.option(
    "--arithmetic",
    default="",
    metavar="FILE|NAME",
    help="how the nodes of -m are computed (qverify identify), in both dumps: when recomputed, every bit must agree",
)
@click.option(
    "--outputs-only",
    is_flag=True,
    help="compare only the final outputs, like -r False; needs -m where neither dump names them",
)
@view_options
@report_options()
@judging_options
def command(
    a: str,
    b: str | None,
    model: str | None,
    quantization: tuple[str, ...],
    profile: str,
    profile_a: str,
    profile_b: str,
    dtype: tuple[str, ...],
    layer_info: str,
    outputs_only: bool,
    arithmetic: str,
    names: str,
    side: str,
    side_a: str,
    side_b: str,
    frame: int,
    view: TextView,
    reports: ReportFiles,
    options: Options,
) -> int:
    from dataclasses import replace

    from qverify.renderers import terminal
    from qverify.session.offline.compare_dumps import DumpPair, compare_dumps, dtypes
    from qverify.session.offline.compare_ladder import compare_ladder
    from qverify.vendor_files.vendor_dump import ReadingOptions

    reading = ReadingOptions(dtypes(dtype), side, frame, layer_info)
    narrow = outputs_only or ("dump_all" in options.named and not options.dump_all)
    if outputs_only and options.dump_all:
        raise click.UsageError("--outputs-only and -r True contradict each other; give one")
    profiles, sides = (profile_a or profile, profile_b or profile), (side_a or side, side_b or side)
    dumps = DumpPair(a, b or a, model, *profiles, reading, narrow, *sides, arithmetic, quantization, names)
    if b is None and (side or side_a or side_b or profile_b):
        raise click.UsageError(
            "--side and --profile-b choose between two dumps; compare DIR takes every side of the folder"
        )
    options = replace(options, drawings=reports.drawings)
    if hand_over((dumps, options)):
        return 0
    report = compare_dumps(dumps, options) if b is not None else compare_ladder(dumps, options)
    return emit(report, terminal.render(report, [], view), reports)
