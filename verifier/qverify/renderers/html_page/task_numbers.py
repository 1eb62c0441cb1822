"""Renders the task numbers: a table of the sides, what their gates find, and the frames that only the board has wrong, with
the boxes of both sides drawn."""

from __future__ import annotations

import base64

from qverify.renderers.drawings.png import pixels
from qverify.renderers.html_page.elements import element, listed, number, table, text, verdict
from qverify.renderers.task_lines import describe, name_side, side_cells
from qverify.report.document import ReportDocument, TaskBox, TaskFrame, TaskNumbers
from qverify.report.drawings import TaskPicture

LONGER_SIDE = 480  # pixels of the longer side of a drawn frame
STYLES = {  # of a side's boxes: class of the colour, the colour without a style sheet, dashes
    "label": ("s-quiet", "#57606a", "2 3"),
    "reference": ("s-mark", "#0b57a4", None),
    "simulator": ("s-mark", "#0b57a4", None),
    "board": ("s-bad", "#b3261e", "7 4"),
}
WORDS = {"label": "labels: dotted, gray", "board": "board: dashed, red"}


def section_text(report: ReportDocument) -> str:
    """Returns the section's content, or "" for a report without task numbers."""
    return "".join(_task(task) for task in report.tasks)


def _task(task: TaskNumbers) -> str:
    first, *lines = describe(task, None)
    names = list(dict.fromkeys(name for side in task.sides for name in side.values))
    rows = [[text(cell) for cell in side_cells(task, side, names)] for side in task.sides]
    below = [line.strip() for line in lines[len(task.sides) + len(task.gates) + len(task.blamed) :]]
    parts = [element("p", text(first)), table("sides", ("side", *names, "frames"), rows), _gates(task)]
    parts += [element("p", text(f"{blamed.sentence()}."), class_="blame") for blamed in task.blamed]
    drawn = [_figure(frame, frame.picture) for frame in task.only_board_wrong if frame.picture is not None]
    parts += [listed(below), element("div", *drawn, class_="drawings frames") if drawn else ""]
    return "".join(parts)


def _gates(task: TaskNumbers) -> str:
    """Returns the table of the gates, or "" without any."""
    rows = [
        [text(r.gate), text(name_side(r.side)), number(r.value), number(r.limit), verdict(r.verdict)]
        for r in task.gates
    ]
    shown = table("gates of the task", ("gate", "side", "value", "limit", "verdict"), rows) if rows else ""
    return shown + listed(row.why for row in task.gates if row.why)


def _figure(frame: TaskFrame, picture: TaskPicture) -> str:
    """Returns the picture of a frame with the boxes of the labels, of the reference and of the board."""
    width, height = picture.size
    scale = LONGER_SIDE / max(width, height)
    wide, high = round(width * scale), round(height * scale)
    data = base64.b64encode(pixels(picture.pixels)).decode()
    image = element(
        "image", href=f"data:image/png;base64,{data}", x=0, y=0, width=wide, height=high, preserveAspectRatio="none"
    )
    boxes = [_box(box, picture, scale) for box in frame.boxes]
    sides = list(dict.fromkeys(box.side for box in frame.boxes))
    counted = ", ".join(f"{sum(b.side == side for b in frame.boxes)} of {name_side(side)}" for side in sides)
    label = f"frame {frame.frame} {frame.source} with boxes: {counted or 'none'}"
    svg = element(
        "svg",
        image,
        *boxes,
        viewBox=f"0 0 {wide} {high}",
        width=wide,
        height=high,
        role="img",
        aria_label=label,
        class_="boxes",
    )
    answers = "; ".join(f"{name_side(side)} {answer}" for side, answer in frame.answers.items())
    legend = "; ".join(WORDS.get(side, f"{name_side(side)}: solid, blue") for side in sides)
    caption = f"Frame {frame.frame} {frame.source}: {answers}. Boxes: {counted or 'none'}. {legend}"
    return element("figure", svg, element("figcaption", text(caption)))


def _box(box: TaskBox, picture: TaskPicture, scale: float) -> str:
    """Returns a box as a rectangle, in a light halo so that it is seen on any picture."""
    x1, x2 = (min(max((x * picture.ratio[0] + picture.pad[0]) * scale, -9.0), 9999.0) for x in (box.x1, box.x2))
    y1, y2 = (min(max((y * picture.ratio[1] + picture.pad[1]) * scale, -9.0), 9999.0) for y in (box.y1, box.y2))
    place = {"x": f"{x1:.1f}", "y": f"{y1:.1f}", "width": f"{max(x2 - x1, 0):.1f}", "height": f"{max(y2 - y1, 0):.1f}"}
    paint, colour, dashes = STYLES.get(box.side, STYLES["label"])
    halo = element("rect", fill="none", stroke="#fff", stroke_width=4, stroke_opacity="0.8", **place)
    said = f"{name_side(box.side)}: {box.category}" + (f" {box.score:.3f}" if box.side != "label" else "")
    outline = element(
        "rect",
        element("title", text(said)),
        fill="none",
        stroke=colour,
        stroke_width=2,
        stroke_dasharray=dashes,
        class_=f"box-{paint}",
        **place,
    )
    return halo + outline
