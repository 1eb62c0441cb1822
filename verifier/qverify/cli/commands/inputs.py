"""Converts pictures and sound to the aligned bytes a chip reads, shows them as pictures again, and checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.describing import describing
from qverify.cli.inputs_diff import diff
from qverify.cli.say_line import say

if TYPE_CHECKING:
    from qverify.inputs.description import Description


@click.group(help=__doc__)
def command() -> None:
    pass


command.add_command(diff)


def _require(wanted: Description | None) -> Description:
    if wanted is None:
        raise click.UsageError("the bytes are not described: give --format and --size, --description FILE or -m MODEL")
    return wanted


@command.command(
    help="Convert pictures, .npy, .npz, .wav or .bin, or a folder or list (.txt) of them, to NNNN.bin and manifest.json"
)
@click.argument("files", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="DIR")
@describing
def prepare(files: tuple[str, ...], output: str, wanted: Description | None, name: str) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.session.inputs import prepared_files

    paths = [p for one in files for p in prepared_files.sources(one)]
    with progress_bars() as watch:
        tell = None if watch is None else (lambda done, total: watch("pictures", done, total))
        failed = prepared_files.prepare(paths, _require(wanted), output, name, tell)
    say(f"{output}: {len(paths) - len(failed)} of {len(paths)} prepared, {_describe(_require(wanted))}")
    for row in failed:
        say(f"qverify: {row['why']}", err=True)
    return 2 if failed else 0


@command.command(
    help="Write random inputs to NNNN.bin and manifest.json: every stored value equally likely, padding zero, the same for the same seed"
)
@click.option("-o", "--output", required=True, metavar="DIR")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--count", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="number of files")
@describing
def random(output: str, seed: int, count: int, wanted: Description | None, name: str) -> int:
    from qverify import plural
    from qverify.session.inputs import prepared_files

    prepared_files.random(_require(wanted), output, name, seed, count)
    say(f"{output}: {plural.count(count, 'file')} of seed {seed}, {_describe(_require(wanted))}")
    return 0


def _describe(wanted: Description) -> str:
    from qverify.inputs.description_keys import describe_unverified

    width, height = wanted.frame
    text = (
        f"{wanted.size_bytes} bytes each ({wanted.format} {width}x{height}, {wanted.layout}, mode {wanted.colour.mode})"
    )
    doubt = describe_unverified(wanted)
    return text + (f"; unverified: {doubt}" if doubt else "")


@command.command(
    help="Convert prepared bytes back to PNG files, with statistics of their planes and padding: a folder of prepare, or one file with a description"
)
@click.argument("path", type=click.Path(exists=True))
@click.option("-o", "--output", metavar="DIR", help="[default: FOLDER/shown, beside a file]")
@describing
def show(path: str, output: str | None, wanted: Description | None, name: str) -> int:
    import os

    from qverify.session.inputs import prepared_files

    beside = path if os.path.isdir(path) else os.path.dirname(path)
    rows = prepared_files.show(path, output or os.path.join(beside, "shown"), wanted)
    for row in rows:
        about = "; ".join(f"{k} {v}" for k, v in row.items() if k not in ("file", "source", "wrong") and v)
        say(f"{row['file']} ({row['source']}): {about}{'; WRONG: ' + row['wrong'] if row['wrong'] else ''}")
    return 2 if not rows or any(row["wrong"] for row in rows) else 0


@command.command(
    help="Check bytes: a folder against its manifest, and the manifest against -m MODEL or --description; files against -m or a description"
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@describing
def check(paths: tuple[str, ...], wanted: Description | None, name: str) -> int:
    from qverify.plural import count
    from qverify.session.inputs import prepared_files

    rows = [row for path in paths for row in prepared_files.checked(path, wanted)]
    for file, wrong in rows:
        if wrong:
            say(f"qverify: {file}: {wrong}", err=True)
    good = sum(not wrong for _, wrong in rows)
    source = "description" if wanted else "manifest"
    say(f"{', '.join(paths)}: {good} of {count(len(rows), 'file', 'matches', 'match')} the {source}")
    return 0 if rows and good == len(rows) else 2
