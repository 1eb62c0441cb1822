"""Extracts the bytes of a capture as raw files: inputs as the board was fed them, and every side's tensors in their
aligned layout, with a dump.json that describes them."""

from __future__ import annotations

import click

from qverify.cli.say_line import say


@click.command(help=__doc__)
@click.argument("capture", type=click.Path(exists=True, file_okay=False))
@click.argument("folder", type=click.Path())
@click.option("--frame", type=click.IntRange(0), help="[default: all]")
@click.option("--side", default="", help="inputs, reference, simulator or board  [default: all]")
@click.option("--tensor", "tensors", multiple=True, metavar="NAME", help="may be repeated  [default: all]")
def command(capture: str, folder: str, frame: int | None, side: str, tensors: tuple[str, ...]) -> int:
    from qverify.plural import count
    from qverify.session.offline.extract_files import ExtractRequest, extract

    written = extract(ExtractRequest(capture, folder, frame, side, tensors))
    missing = count(written.missing, "tensor", "is", "are")
    note = f"; {missing} not in the capture (dump.json says why)" if written.missing else ""
    say(f"{folder}: {count(written.files, 'file')}, {count(written.bytes, 'byte')}{note}")
    return 0
