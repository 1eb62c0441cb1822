"""Renders the differences of the blamed node's tensor for a terminal: by how much it differs, and where, as a small map
of characters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.renderers.text_view import TextView
from qverify.report.document import ReportDocument
from qverify.report.drawings import ErrorMaps, TensorDrawing

BLOCKS, PLAIN = " ░▒▓█", " .:*#"
MAX_BARS, BAR_LENGTH = 9, 24  # listed differences; characters of the longest bar
MAP_COLUMNS, MAP_ROWS = 48, 16
FAILS = "fails when it is recomputed"


def render(report: ReportDocument, view: TextView) -> str:
    """Returns the text, or "" if no node is blamed or its tensor was not drawn."""
    if report.blame is None:
        return ""
    candidates = ((pair, d) for pair in report.pairs for d in pair.drawings if d.why == FAILS and d.first)
    node_of_tensor = {o: u.node for u in report.units for o in u.outputs}
    pair, drawing = next(
        ((p, d) for p, d in candidates if node_of_tensor.get(d.name) == report.blame.node), (None, None)
    )
    if pair is None or drawing is None:
        return ""
    head = f"{drawing.name}, {pair.a} ~ {pair.b}: {drawing.differing} of {drawing.elements} elements differ"
    shades = BLOCKS if view.blocks else PLAIN
    return "\n".join([view.wrap(head), *_bars(drawing, shades[-1]), *_map(drawing.maps, shades)])


def _bars(drawing: TensorDrawing, mark: str) -> list[str]:
    shown = sorted(drawing.differences, key=lambda pair: -pair[1])[:MAX_BARS]
    shown = [pair for pair in drawing.differences if pair in shown and pair[1]]
    if not shown:
        return []
    widest, largest = max(len(name) for name, _ in shown), max(number for _, number in shown)
    unlisted = drawing.differing - sum(number for _, number in shown)
    lines = [
        f"  {name:>{widest}} {drawing.unit:3} {mark * max(1, round(BAR_LENGTH * n / largest)):{BAR_LENGTH}} {n}".rstrip()
        for name, n in shown
    ]
    return lines + ([f"  and {unlisted} by other amounts"] if unlisted > 0 else [])


def _map(maps: ErrorMaps | None, shades: str) -> list[str]:
    """Returns the lines of the map over height and width, for all channels together; [] for a single row or element."""
    if maps is None or min(maps.plane) < 2 or max(maps.plane) < 4:
        return []
    cells = _smaller(maps.maps[0].cells)
    finite = cells[np.isfinite(cells)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    height, width = maps.plane
    plane = f"the tensor in rows of {width}" if maps.folded else f"height {height} x width {width}"
    over = f", the largest of {maps.channels} channels" if maps.channels > 1 else ""
    shares = np.ceil(np.where(np.isfinite(cells), cells / top, 1.0) * 4).astype(int)
    if (shares == shares.max()).all():
        return [f"  everywhere ({plane}{over})"]
    lines = [f"  where, {plane}{over}:", f"  +{'-' * cells.shape[1]}+"]
    lines += [f"  |{''.join(shades[min(4, share)] for share in row)}|" for row in shares.tolist()]
    return [*lines, f"  +{'-' * cells.shape[1]}+"]


def _smaller(cells: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the cells combined into at most MAP_ROWS x MAP_COLUMNS cells, each with the largest value."""
    rows, columns = (
        np.arange(min(size, limit)) * size // min(size, limit)
        for size, limit in zip(cells.shape, (MAP_ROWS, MAP_COLUMNS), strict=True)
    )
    return np.maximum.reduceat(np.maximum.reduceat(cells, rows, axis=0), columns, axis=1)
