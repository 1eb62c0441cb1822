"""--plots: a picture of every drawn tensor and of the inputs, as SVG and PNG, in a folder."""

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
from qverify.report.document import Pair, Report
from qverify.report.drawings import InputDrawing, TensorDrawing
from qverify.report.triage_document import TriageDocument
from qverify.tensors.file_names import file_stems

LIST = "plots.txt"  # in the folder: the names of what was drawn there
MOST_LIST = 1 << 20  # bytes of it
LONGEST = 60  # characters of a name in a title


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The drawn tensors of sides a and b. before: begins their files' names. place: frame and board, where there are
    several."""

    a: str
    b: str
    verdict: str
    before: str
    place: str
    drawings: list[TensorDrawing]


def write_plots(report: Report | TriageDocument, folder: str) -> None:
    """Writes the files, each whole or not at all; the folder is made. Their names begin with a number, in the order of
    the report; LIST names them, and those that an earlier LIST names are removed first. Other files stay. UsageError where one cannot be written, MissingExtraError without Pillow."""
    png.require()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--plots {folder}: cannot be made: {error.strerror}") from error
    _remove_earlier(folder)
    report = visible(report)
    sheets = [*_sheets(report)]
    names = file_stems([f"{at:03d}-{name}" for at, (name, _) in enumerate(sheets)])
    named = len(report.frames) > 1
    inputs = file_stems([_input_name(one, named) for one in report.input_drawings if one.picture is not None])
    written = [f"{stem}.{kind}" for stem in names.values() for kind in ("svg", "png")]
    written += [f"{stem}.png" for stem in inputs.values()]
    write_text("".join(f"{name}\n" for name in written), os.path.join(folder, LIST))
    for stem, (_, figure) in zip(names.values(), sheets, strict=True):
        write_text(svg.document(figure), os.path.join(folder, f"{stem}.svg"))
        write_bytes(png.draw(figure), os.path.join(folder, f"{stem}.png"))
    for stem, one in zip(inputs.values(), (i for i in report.input_drawings if i.picture is not None), strict=True):
        assert one.picture is not None
        write_bytes(png.pixels(one.picture), os.path.join(folder, f"{stem}.png"))


def _remove_earlier(folder: str) -> None:
    """Removes what an earlier run drew in the folder: pictures that its LIST names."""
    try:
        names = read_regular(os.path.join(folder, LIST), MOST_LIST).decode("utf-8", "replace").splitlines()
    except (BadFileError, OSError):
        return
    for name in names:
        if os.path.basename(name) == name and name.endswith((".svg", ".png")):
            with suppress(OSError):
                os.remove(os.path.join(folder, name))


def _sheets(report: Report | TriageDocument) -> Iterator[tuple[str, Figure]]:
    """Yields the name and the sheet of every drawn tensor and input, those of sides that fail first."""
    for pair in sorted(_drawn(report), key=lambda p: ("FAILED", "INCONCLUSIVE", "PASSED").index(p.verdict)):
        for drawing in pair.drawings:
            yield (
                f"{pair.before}{pair.a}-{pair.b}-{drawing.name}",
                sheet(_title(pair, drawing), panels.figures(drawing, pair.a, pair.b)),
            )
    for one in report.input_drawings:
        if one.values is not None:
            figure = panels.values(one.values, _shortened(one.name), "")
            place = f", frame {one.frame}" if len(report.frames) > 1 else ""
            title = f"input {_shortened(one.name)}{place}"
            yield _input_name(one, bool(place)), sheet(title, [figure], columns=1)


def _drawn(report: Report | TriageDocument) -> list[_Drawn]:
    if isinstance(report, TriageDocument):
        return [_Drawn(r.a, r.b, r.verdict, "", "", r.drawings) for r in report.rungs]
    several = len(report.boards) > 1
    return [
        _Drawn(p.a, p.b, p.verdict, f"frame{p.frame}-" if report.frames else "", place_of(p, several), p.drawings)
        for p in report.pairs
    ]


def _input_name(one: InputDrawing, named: bool) -> str:
    """Returns the beginning of a file's name. named: with its frame."""
    return f"frame{one.frame}-input-{one.name}" if named else f"input-{one.name}"


def _title(pair: _Drawn, drawing: TensorDrawing) -> str:
    counted = f"{drawing.differing} of {drawing.elements} elements differ" if drawing.differing else "equal"
    return f"{_shortened(drawing.name)} {drawing.op}, {pair.a} ~ {pair.b}{pair.place}: {counted}"


def place_of(pair: Pair, several: bool) -> str:
    """Returns the words that tell a pair from others of the same sides: its board, where there are several, and frame."""
    words = (pair.board if several else "", f"frame {pair.frame}" if pair.frame else "")
    return "".join(f", {word}" for word in words if word)


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
