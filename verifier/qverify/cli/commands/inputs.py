"""Inputs: pictures to the aligned bytes a chip reads, shown again as pictures, checked."""

from __future__ import annotations

import click

from qverify.cli.inputs_diff import diff

CHOICES = {
    "format": "of the bytes: nv12 nv21 i420 yuv444 yuv444_128 rgb bgr rgba bgra rgb_128 bgr_128 gray gray_128 featuremap raw_s16 raw_f32",
    "train": "what the network was trained on: rgb bgr gray yuv444 featuremap",
    "mode": "colour: opencv, sigmastar, horizon, bt601, bt709",
    "range": "full or limited (bt601, bt709)",
    "siting": "chroma: top-left or mean (bt601, bt709)",
    "library": "of the resize: cv2 or pillow",
    "interpolation": "nearest, linear, cubic, area",
    "resize-dtype": "uint8 or float32",
    "fit": "stretch, crop, letterbox",
    "fill": "of a letterbox, 0 to 255",
    "mean": "one number, or one a channel: 123.7,116.3,103.5",
    "scale": "as mean; (x - mean) * scale",
    "rounding": "of quantizing: half-even, half-away, truncate",
    "layout": "NHWC or NCHW",
    "width-align": "multiple, in elements",
    "height-align": "multiple, in rows",
    "innermost-align": "multiple of the last dimension, in elements",
    "buffer-align": "multiple of the whole, in bytes",
}


@click.group(help=__doc__)
def command() -> None:
    pass


@command.command(
    help="pictures, .npy pixels or .bin, or a folder or list (.txt) of them, to NNNN.bin and manifest.json"
)
@click.argument("source", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="DIR")
@click.option("--description", "toml", metavar="FILE", help="TOML with [inputs.NAME]; options win over it")
@click.option("--name", help="of the model input")
@click.option("--size", help="WIDTHxHEIGHT")
@click.option(
    "--quantize", nargs=2, type=float, default=None, metavar="SCALE ZERO", help="of an integer featuremap or raw_s16"
)
def prepare(
    source: tuple[str, ...],
    output: str,
    toml: str | None,
    name: str | None,
    size: str | None,
    quantize: tuple[float, float] | None,
    **given: str | None,
) -> int:
    from qverify.cli.live_progress import bars
    from qverify.inputs.description import described
    from qverify.session import inputs

    table = inputs.from_toml(toml, name) if toml else {}
    table |= {k: v for k, v in {**given, "size": size, "quantize": quantize}.items() if v is not None}
    wanted = described(table, toml or "options")
    paths = [p for one in source for p in inputs.sources(one)]
    with bars() as watch:
        tell = None if watch is None else (lambda done, total: watch("pictures", done, total))
        failed = inputs.prepare(paths, wanted, output, name or "input", tell)
    click.echo(f"{output}: {len(paths) - len(failed)} of {len(paths)} prepared, {_each(wanted)}")
    for why in failed.values():
        click.echo(f"qverify: {why}", err=True)
    return 2 if failed else 0


command.add_command(diff)
for _key, _help in CHOICES.items():
    click.option(f"--{_key}", help=_help)(prepare)
    click.option(f"--{_key}", help=_help)(diff)


def _each(wanted: object) -> str:
    from qverify.inputs import buffers
    from qverify.inputs.description import Description

    assert isinstance(wanted, Description)
    width, height = wanted.size
    return f"{buffers.size_bytes(wanted)} bytes each ({wanted.format} {width}x{height}, {wanted.layout}, mode {wanted.colour.mode})"


@command.command(help="prepared bytes back to PNG files, with the statistics of their planes")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("-o", "--output", metavar="DIR", help="[default: FOLDER/shown]")
def show(folder: str, output: str | None) -> int:
    import os

    from qverify.session import inputs

    rows = inputs.show(folder, output or os.path.join(folder, "shown"))
    for row in rows:
        about = "; ".join(f"{k} {v}" for k, v in row.items() if k not in ("file", "source", "wrong") and v)
        click.echo(f"{row['file']} ({row['source']}): {about}{'; WRONG: ' + row['wrong'] if row['wrong'] else ''}")
    return 2 if any(row["wrong"] for row in rows) else 0


@command.command(help="sizes, hashes and padding of prepared bytes against their manifest")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def check(folder: str) -> int:
    from qverify.session import inputs

    rows = [(row, wrong) for row, _, wrong in inputs.contents(folder)]
    for row, wrong in rows:
        if wrong:
            click.echo(f"qverify: {folder}/{row['file']}: {wrong}", err=True)
    good = sum(not wrong for _, wrong in rows)
    click.echo(f"{folder}: {good} of {len(rows)} files are as the manifest says")
    return 0 if rows and good == len(rows) else 2
