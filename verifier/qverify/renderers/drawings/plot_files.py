"""Writes the files of --plots: pictures of all drawn tensors and inputs, as SVG and PNG, in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular, write_bytes, write_text
from qverify.printable import visible
from qverify.renderers.drawings import panels, png, svg
from qverify.renderers.drawings.shapes import Figure, sheet
from qverify.report.document import Pair, ReportDocument
from qverify.report.drawings import InputDrawing, TensorDrawing
from qverify.report.triage_document import TriageDocument
from qverify.tensors.file_names import file_stems

LIST = "plots.txt"  # file with the names of the pictures in the folder
MAX_LIST_BYTES = 1 << 20
MAX_TITLE_NAME = 60  # characters of a name in a title


@dataclass(frozen=True, slots=True)
class _DrawnPair:
    """The drawn tensors of sides a and b. prefix: beginning of the names of their files. place: frame and board, if
    there are several."""

    a: str
    b: str
    verdict: str
    prefix: str
    place: str
    drawings: list[TensorDrawing]


def write_plots(report: ReportDocument | TriageDocument, folder: str) -> None:
    """Writes the files into the folder, which is created if necessary; each file is written completely or not at all.
    File names begin with a number, in the order of the report. LIST contains their names. Files that an earlier LIST
    names are removed first; other files remain. Raises UsageError if a file cannot be written, MissingExtraError
    without Pillow."""
    png.require()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--plots {folder}: cannot be created: {error.strerror}") from error
    _remove_earlier(folder)
    report = visible(report)
    sheets = [*_sheets(report)]
    names = file_stems([f"{number:03d}-{name}" for number, (name, _) in enumerate(sheets)])
    several_frames = len(report.frames) > 1
    inputs = file_stems(
        [_input_name(drawing, several_frames) for drawing in report.input_drawings if drawing.picture is not None]
    )
    written = [f"{stem}.{kind}" for stem in names.values() for kind in ("svg", "png")]
    written += [f"{stem}.png" for stem in inputs.values()]
    write_text("".join(f"{name}\n" for name in written), os.path.join(folder, LIST))
    for stem, (_, figure) in zip(names.values(), sheets, strict=True):
        write_text(svg.document(figure), os.path.join(folder, f"{stem}.svg"))
        write_bytes(png.draw(figure), os.path.join(folder, f"{stem}.png"))
    for stem, drawing in zip(inputs.values(), (i for i in report.input_drawings if i.picture is not None), strict=True):
        assert drawing.picture is not None
        write_bytes(png.pixels(drawing.picture), os.path.join(folder, f"{stem}.png"))


def _remove_earlier(folder: str) -> None:
    """Removes the pictures that an earlier run wrote, which its LIST names."""
    try:
        names = read_regular(os.path.join(folder, LIST), MAX_LIST_BYTES).decode("utf-8", "replace").splitlines()
    except (BadFileError, OSError):
        return
    for name in names:
        if os.path.basename(name) == name and name.endswith((".svg", ".png")):
            with suppress(OSError):
                os.remove(os.path.join(folder, name))


def _sheets(report: ReportDocument | TriageDocument) -> Iterator[tuple[str, Figure]]:
    """Yields name and sheet of every drawn tensor and input, beginning with pairs that fail."""
    for pair in sorted(_drawn_pairs(report), key=lambda p: ("FAILED", "INCONCLUSIVE", "PASSED").index(p.verdict)):
        for drawing in pair.drawings:
            yield (
                f"{pair.prefix}{pair.a}-{pair.b}-{drawing.name}",
                sheet(_title(pair, drawing), panels.figures(drawing, pair.a, pair.b)),
            )
    for drawn_input in report.input_drawings:
        if drawn_input.values is not None:
            figure = panels.values(drawn_input.values, _shortened(drawn_input.name), "")
            place = f", frame {drawn_input.frame}" if len(report.frames) > 1 else ""
            title = f"input {_shortened(drawn_input.name)}{place}"
            yield _input_name(drawn_input, bool(place)), sheet(title, [figure], columns=1)


def _drawn_pairs(report: ReportDocument | TriageDocument) -> list[_DrawnPair]:
    if isinstance(report, TriageDocument):
        return [_DrawnPair(r.a, r.b, r.verdict, "", "", r.drawings) for r in report.rungs]
    several = len(report.boards) > 1
    return [
        _DrawnPair(
            p.a, p.b, p.verdict, f"frame{p.frame}-" if report.frames else "", describe_place(p, several), p.drawings
        )
        for p in report.pairs
    ]


def _input_name(drawn_input: InputDrawing, with_frame: bool) -> str:
    """Returns the beginning of the name of an input's file. with_frame: True to include the frame."""
    return f"frame{drawn_input.frame}-input-{drawn_input.name}" if with_frame else f"input-{drawn_input.name}"


def _title(pair: _DrawnPair, drawing: TensorDrawing) -> str:
    counted = f"{drawing.differing} of {drawing.elements} elements differ" if drawing.differing else "equal"
    return f"{_shortened(drawing.name)} {drawing.op}, {pair.a} ~ {pair.b}{pair.place}: {counted}"


def describe_place(pair: Pair, several_boards: bool) -> str:
    """Returns the words that distinguish a pair from others of the same sides: its board, if there are several, and its
    frame."""
    words = (pair.board if several_boards else "", f"frame {pair.frame}" if pair.frame else "")
    return "".join(f", {word}" for word in words if word)


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_TITLE_NAME else f"{name[:MAX_TITLE_NAME]}..."
