"""Converts pictures and sound to the aligned bytes a chip reads, shows them as pictures again, and checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.inputs_diff import diff
from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.options.tools import DESCRIPTION

if TYPE_CHECKING:
    from qverify.inputs.description import Description
    from qverify.options.given import Given


@click.group(help=__doc__)
def command() -> None:
    pass


command.add_command(diff)


@command.command(
    help="Print a description of the pictures that a model's inputs take, to correct and give to --description FILE"
)
@click.argument("model", metavar="MODEL[,MODEL]")
def draft(model: str) -> int:
    from qverify.renderers import drafts
    from qverify.session.inputs.draft_descriptions import draft_descriptions

    click.echo(drafts.render(draft_descriptions(model.split(","))))
    return 0


def _described(given: Given) -> tuple[Description | None, str]:
    from qverify.session.requests.differences import read_described

    return read_described(given)


def _require(description: Description | None) -> Description:
    """Returns the description. Raises UsageError if there is none."""
    if description is None:
        raise click.UsageError("the bytes are not described: give --format and --size, --description FILE or -m MODEL")
    return description


@command.command(
    help="Convert pictures, .npy, .npz, .wav or .bin, or a folder or list (.txt) of them, to NNNN.bin and manifest.json"
)
@click.argument("files", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="DIR")
@takes(*DESCRIPTION)
def prepare(files: tuple[str, ...], output: str, given: Given) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.session.inputs import prepared_files

    described, name = _described(given)
    paths = [p for file in files for p in prepared_files.list_files(file)]
    description = _require(described)
    with progress_bars() as watch:
        progress = None if watch is None else (lambda done, total: watch("pictures", done, total))
        failed = prepared_files.prepare(paths, description, output, name, progress)
    say(f"{output}: {len(paths) - len(failed)} of {len(paths)} prepared, {_describe(description)}")
    for row in failed:
        say(f"qverify: {row['why']}", err=True)
    return 2 if failed else 0


@command.command(
    help="Write random inputs to NNNN.bin and manifest.json: every stored value equally likely, padding zero, the same for the same seed"
)
@click.option("-o", "--output", required=True, metavar="DIR")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--count", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="number of files")
@takes(*DESCRIPTION)
def random(output: str, seed: int, count: int, given: Given) -> int:
    from qverify import plural
    from qverify.session.inputs import prepared_files

    described, name = _described(given)
    description = _require(described)
    prepared_files.random(description, output, name, seed, count)
    say(f"{output}: {plural.count(count, 'file')} of seed {seed}, {_describe(description)}")
    return 0


def _describe(description: Description) -> str:
    """Returns size and format of the described bytes as text."""
    from qverify.inputs.description_keys import describe_unverified

    width, height = description.frame
    text = f"{description.size_bytes} bytes each ({description.format} {width}x{height}, {description.layout}, mode {description.colour.mode})"
    doubt = describe_unverified(description)
    return text + (f"; describe_unverified: {doubt}" if doubt else "")


@command.command(
    help="Convert prepared bytes back to PNG files, with statistics of their planes and padding: a folder of prepare, or one file with a description"
)
@click.argument("path", type=click.Path(exists=True))
@click.option("-o", "--output", metavar="DIR", help="[default: FOLDER/shown, beside a file]")
@takes(*DESCRIPTION)
def show(path: str, output: str | None, given: Given) -> int:
    import os

    from qverify.session.inputs import prepared_files

    description, _ = _described(given)
    beside = path if os.path.isdir(path) else os.path.dirname(path)
    rows = prepared_files.show(path, output or os.path.join(beside, "shown"), description)
    for row in rows:
        about = "; ".join(f"{k} {v}" for k, v in row.items() if k not in ("file", "source", "wrong") and v)
        say(f"{row['file']} ({row['source']}): {about}{'; WRONG: ' + row['wrong'] if row['wrong'] else ''}")
    return 2 if not rows or any(row["wrong"] for row in rows) else 0


@command.command(
    help="Check bytes: a folder against its manifest, and the manifest against -m MODEL or --description; files against -m or a description"
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@takes(*DESCRIPTION)
def check(paths: tuple[str, ...], given: Given) -> int:
    from qverify.plural import count
    from qverify.session.inputs import prepared_files

    description, _ = _described(given)
    rows = [row for path in paths for row in prepared_files.check_files(path, description)]
    for file, wrong in rows:
        if wrong:
            say(f"qverify: {file}: {wrong}", err=True)
    good = sum(not wrong for _, wrong in rows)
    source = "description" if description else "manifest"
    say(f"{', '.join(paths)}: {good} of {count(len(rows), 'file', 'matches', 'match')} the {source}")
    return 0 if rows and good == len(rows) else 2
