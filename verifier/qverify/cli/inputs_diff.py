"""`qverify inputs diff`: compares the bytes that the device fed to the NPU with those that it should have fed."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from qverify.cli.json_document import check_document, write_document
from qverify.cli.takes import takes_all
from qverify.cli.view_options import screen

if TYPE_CHECKING:
    from qverify.inputs.description import Description
    from qverify.inputs.difference import MistakeExplanation
    from qverify.options.given import Given
    from qverify.session.inputs.compare_inputs import ComparedFrame

PICTURE_MAGICS = (b"\x89PNG", b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xe1")  # first bytes of PNG and JPEG files


@click.command(
    help="Compare A (picture, .npy pixels or .bin, with a description; a folder of prepare) with the captured bytes B (a file, a folder): "
    "equal, or the known mistake, or pair of mistakes, that reproduces them; else the nearest. Exit status 0 equal, 1 different"
)
@takes_all("inputs_diff")
def diff(given: Given) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.session.inputs import compare_inputs
    from qverify.session.requests.differences import inputs_diff_request

    path = given["path"]
    a, b, description, seconds = inputs_diff_request(given)
    check_document(path)
    with progress_bars() as watch:
        frames = compare_inputs.compare(a, b, description, seconds, watch)
    if path:
        _write(a, b, frames, path)
    if path != "-":
        view = screen()
        click.echo("\n".join(view.wrap(line) for line in [*_render(frames), *_note_picture(a, b, frames)]))
    return 0 if all(f.difference.equal for f in frames) else 1


def _note_picture(a: str, b: str, frames: list[ComparedFrame]) -> list[str]:
    """Returns a note if B, which should be captured bytes, is a picture file, so that A and B may be exchanged; else
    []."""
    from qverify.printable import printable

    if not os.path.isfile(b) or all(f.difference.equal for f in frames):
        return []
    with open(b, "rb") as file:
        is_picture = file.read(4).startswith(PICTURE_MAGICS)
    step = f"if A and B are exchanged: qverify inputs diff {shlex.quote(b)} {shlex.quote(a)}"
    return [printable(f"note: B, {b}, is a picture file; wanted the captured bytes; {step}")] if is_picture else []


def _render(frames: list[ComparedFrame]) -> list[str]:
    """Returns the lines to print."""
    from qverify.printable import printable
    from qverify.renderers.inputs_difference import details, verdict

    if len(frames) == 1:
        (only,) = frames
        return [
            verdict(only.difference),
            *(f"  {line}" for line in details(only.difference, partial(_advise, only.description))),
        ]
    lines = [_summarize(frames)]
    for frame in frames:
        lines.append(printable(f"{frame.captured} ({frame.intended}): {verdict(frame.difference)}"))
        lines += [f"  {line}" for line in details(frame.difference, partial(_advise, frame.description))]
    return lines


def _summarize(frames: list[ComparedFrame]) -> str:
    """Returns one line on several frames: how many differ, and whether one mistake explains them all."""
    from qverify.plural import count
    from qverify.session.inputs.compare_inputs import common_mistakes

    differing = sum(not f.difference.equal for f in frames)
    if not differing:
        return f"EQUAL: all {len(frames)} frames"
    groups = common_mistakes(frames)
    common = f"{groups[0][0].said} reproduces each" if groups else "no one mistake reproduces each"
    return f"DIFFERENT: {differing} of {count(len(frames), 'frame')}; {common}"


def _advise(description: Description | None, explanation: MistakeExplanation) -> str:
    """Returns advice on how to make both sides agree: options of the description if these can express the mistake, else
    the advice of the mistake's families."""
    from qverify.inputs.hypotheses import find_fix
    from qverify.session.inputs import compare_inputs

    if changed := compare_inputs.fix(explanation, description):
        options = " ".join(f"--{k.replace('_', '-')} {_format(v)}" for k, v in changed.items())
        return f"make the board feed what is described, or describe what it feeds: {options}"
    return "; ".join(text for text in dict.fromkeys(find_fix(c.family) for c in explanation.causes) if text)


def _format(value: object) -> str:
    return ",".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def _write(a: str, b: str, frames: list[ComparedFrame], path: str) -> None:
    """Writes the result as JSON to a file, or to stdout if the path is `-`."""
    from qverify import __version__
    from qverify.renderers.inputs_difference import SCHEMA, to_json
    from qverify.session.inputs.compare_inputs import common_mistakes

    equal = all(f.difference.equal for f in frames)
    document = {
        "schema": SCHEMA,
        "qverify": __version__,
        "a": a,
        "b": b,
        "verdict": "EQUAL" if equal else "DIFFERENT",
        "common": [[explanation.said for explanation in group] for group in common_mistakes(frames)],
        "frames": [{"a": f.intended, "b": f.captured, **to_json(f.difference)} for f in frames],
    }
    write_document(document, path)
