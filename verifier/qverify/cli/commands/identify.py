"""Learns, from a dump or a capture with the tensors of every node, how a chip or runtime computes: for each op the form of
the catalogue that gives every recorded element, how many elements decided it, and which other forms would, too. Nothing is
run on a board."""

from __future__ import annotations

import click

from qverify.cli.view_options import listing_screen

EPILOG = """Exit status 0: every op with integers has a form; 1: a recorded op has none; 3: a form may be chance, or nothing of an op is recorded."""


@click.command(help=__doc__, epilog=EPILOG)
@click.argument("dump", type=click.Path(exists=True))
@click.option("-m", "--model", required=True, help="quant.onnx, model.bin or .tflite whose nodes the dump is of")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="file to write: NAME.toml (ARITHMETICS.md)")
@click.option("--name", default="", help="name of the arithmetic  [default: that of the file]")
@click.option("--engine", default="", help="what computed the dump: chip, firmware, toolchain, versions")
@click.option("--profile", default="", metavar="NAME", help="vendor profile of the dump  [default: by content]")
@click.option("--side", default="", help="of a dump of several sides, as in compare")
@click.option("--frame", type=click.IntRange(0), default=0, show_default=True, help="frame of a capture")
def command(
    dump: str, model: str, output: str | None, name: str, engine: str, profile: str, side: str, frame: int
) -> int:
    import os

    from qverify.cli.reporting import given_words
    from qverify.cli.say_line import say
    from qverify.compare.identify.arithmetic_file import to_text
    from qverify.files import write_text
    from qverify.renderers.identify_text import render
    from qverify.session.offline.identify_dump import Origin, identify_dump
    from qverify.vendor_files.vendor_dump import ReadingOptions

    name = name or os.path.splitext(os.path.basename(output or dump.rstrip("/")))[0]
    origin = Origin(name, engine, "qverify " + " ".join(map(_quote, given_words())))
    found = identify_dump(dump, model, profile, ReadingOptions({}, side, frame, ""), origin)
    ops = list(found.arithmetic.ops.values())
    click.echo(render(ops, found.free, found.nodes, listing_screen()))
    for doubt in found.doubts:
        say(f"not certain: {doubt}")
    for note in found.notes:
        say(note)
    if output is not None:
        write_text(to_text(found.arithmetic), output)
        say(f"{output}: {len(ops)} ops")
    if any(not op.form for op in ops):
        return 1
    return 3 if found.doubts or any(op.why for op in ops) else 0


def _quote(word: str) -> str:
    import shlex

    return shlex.quote(word)
