"""Renders figures and arrays of pixels as PNG. Figures need Pillow (the extra `images`), which draws text; arrays need
no library."""

from __future__ import annotations

import io
import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qverify.extras import import_extra

if TYPE_CHECKING:
    from qverify.renderers.drawings.shapes import Cells, Figure, Line

SCALE = 2  # pixels per unit of a figure
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def pixels(picture: npt.NDArray[np.uint8]) -> bytes:
    """Returns the content of a PNG file of an RGB picture (height, width, 3)."""
    height, width, _ = picture.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, width * 3)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def require() -> None:
    """Raises MissingExtraError if Pillow is not installed."""
    import_extra("PIL.ImageDraw", "--plots: PNG")


def draw(figure: Figure) -> bytes:
    """Returns the content of a PNG file of a figure, with a white background. Raises MissingExtraError if Pillow is not
    installed."""
    from qverify.renderers.drawings.shapes import COLOURS, Cells, Line, Words

    images = import_extra("PIL.Image", "--plots: PNG")
    image = images.new("RGB", (round(figure.width * SCALE), round(figure.height * SCALE)), "#ffffff")
    pen = import_extra("PIL.ImageDraw", "--plots: PNG").Draw(image)
    font = import_extra("PIL.ImageFont", "--plots: PNG").load_default(12 * SCALE)
    for shape in figure.shapes:
        if isinstance(shape, Words):
            text = shape.text.encode("latin-1", "replace").decode("latin-1")  # the font has no other characters
            pen.text(_at(shape.x, shape.y), text, COLOURS["quiet"], font=font, anchor=ANCHORS[shape.anchor])
        elif isinstance(shape, Cells):
            _cells(image, images, shape)
        elif isinstance(shape, Line):
            _line(pen, shape)
        else:
            right, bottom = shape.x + shape.width, shape.y + shape.height
            pen.rectangle(
                [*_at(shape.x, shape.y), *_last(right, bottom, shape.x, shape.y)], _shaded(shape.paint, shape.opacity)
            )
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _at(x: float, y: float) -> tuple[int, int]:
    return round(x * SCALE), round(y * SCALE)


def _last(right: float, bottom: float, left: float, top: float) -> tuple[int, int]:
    """Returns the last pixel of a rectangle, which is at least one pixel large."""
    return max(round(right * SCALE) - 1, round(left * SCALE)), max(round(bottom * SCALE) - 1, round(top * SCALE))


def _shaded(paint: str, opacity: float) -> tuple[int, int, int]:
    from qverify.renderers.drawings.shapes import COLOURS

    colour = bytes.fromhex(COLOURS[paint][1:])
    red, green, blue = (round(255 - (255 - c) * opacity) for c in colour)
    return red, green, blue


def _line(pen: Any, line: Line) -> None:
    from qverify.renderers.drawings.shapes import COLOURS

    for start, stop in pairwise(line.points):
        dash_count = max(1, int((abs(stop[0] - start[0]) + abs(stop[1] - start[1])) / 7)) if line.dashed else 1
        share = 0.5 if line.dashed else 1.0
        for at in range(dash_count):
            begin, end = at / dash_count, (at + share) / dash_count
            pen.line(
                [_at(*_between(start, stop, begin)), _at(*_between(start, stop, end))], COLOURS[line.paint], width=SCALE
            )


def _between(start: tuple[float, float], end: tuple[float, float], share: float) -> tuple[float, float]:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _cells(image: Any, images: Any, cells: Cells) -> None:
    from qverify.renderers.drawings.shapes import LEVELS

    colours = np.array([_shaded(cells.paint, level / LEVELS) for level in range(LEVELS + 1)], np.uint8)
    small = images.fromarray(colours[cells.shades])
    size = max(1, round(cells.width * SCALE)), max(1, round(cells.height * SCALE))
    image.paste(small.resize(size, images.Resampling.NEAREST), _at(cells.x, cells.y))
