"""Renders the drawings of tensors, one section for each, and of the inputs."""

from __future__ import annotations

import base64

from qverify.renderers.drawings import panels, svg
from qverify.renderers.drawings.plot_files import describe_place
from qverify.renderers.drawings.png import pixels
from qverify.renderers.drawings.shapes import Figure
from qverify.renderers.html_page.elements import element, number, text
from qverify.renderers.html_page.frame import Section
from qverify.report.document import Pair, ReportDocument
from qverify.report.drawings import MAX_DRAWN, RULE, DifferingElement, InputDrawing, TensorDrawing

MIN_DRAWING_BYTES = 300_000  # that the drawings of tensors may always take
MAX_INPUT_BYTES = 900_000  # of the drawings of inputs
INPUT_RULE = "Drawn are the inputs of the worst frames that are not PASSED, at most six; of one frame where all are."
PICTURE_SIDE = 224  # approximate pixels of an input's longer side
MAX_NAME_LENGTH = 200  # characters of a name in a heading


def anchors(pairs: list[Pair]) -> list[dict[str, str]]:
    """Returns, for each pair, the ids of its drawn tensors' sections, by name. They include sections of other pairs
    with exactly the same bytes."""
    several = len({pair.board for pair in pairs} - {None}) > 1
    return [
        {
            drawing.name: f"d{pair_number}-{at}"
            for pair_number, other in enumerate(pairs)
            for at, drawing in enumerate(other.drawings)
            if other is pair or (not several and _shares(drawing, other, pair))
        }
        for pair in pairs
    ]


def _shares(drawing: TensorDrawing, drawn: Pair, pair: Pair) -> bool:
    """Returns True if the drawing of pair `drawn` also applies to another pair of the same frame."""
    return drawn.frame == pair.frame and f"{pair.a} ~ {pair.b}" in drawing.also


def sections(report: ReportDocument, order: list[int], room: int) -> list[Section]:
    """Returns the sections of tensors and inputs; the page leaves out empty ones. order: numbers of the pairs. room:
    bytes that both sections may take together, but the one of tensors may always take MIN_DRAWING_BYTES."""
    input_section = inputs(report.input_drawings, len(report.frames))
    drawn = _tensors(report, order, max(room - len(input_section.inside), MIN_DRAWING_BYTES))
    return [Section("drawn", "Tensors, drawn", drawn), input_section]


def inputs(drawn: list[InputDrawing], frames: int) -> Section:
    """Returns the section of the inputs. frames: number of frames in the run; with 0 or 1, the frame is not named."""
    parts, room, left_out = list[str](), MAX_INPUT_BYTES, 0
    for drawn_input in drawn:
        part = _input(drawn_input, frames > 1)
        left_out += len(part) > room
        parts += [part] if len(part) <= room else []
        room -= len(part) if len(part) <= room else 0
    more = f" {left_out} more would make the page too large." if left_out else ""
    rule = element("p", text(INPUT_RULE + more), class_="under") if frames > 1 or more else ""
    return Section(
        "inputs", "Inputs of the worst frames" if frames > 1 else "Inputs", rule + "".join(parts) if drawn else ""
    )


def _tensors(report: ReportDocument, order: list[int], room: int) -> str:
    drawn = [(pair, index) for pair in order for index in range(len(report.pairs[pair].drawings))]
    left_out, several_boards = 0, len(report.boards) > 1
    by_differs: dict[bool, list[str]] = {True: [], False: []}
    for pair, index in drawn:
        shown = by_differs[report.pairs[pair].drawings[index].differing > 0]
        section = _of_pair(report.pairs[pair], pair, index, several_boards, first=not any(by_differs.values()))
        if len(section) > room:
            left_out += 1
            shown.append(_left_out(report.pairs[pair], pair, index, several_boards))
        else:
            shown.append(section)
            room -= len(section)
    differing, equal = by_differs[True], by_differs[False]
    if differing and len(equal) > 1:
        equal = [element("details", element("summary", f"{len(equal)} equal tensors"), *equal)]
    more = f" {left_out} more would make the page too large." if left_out else ""
    rule = element("p", text(RULE.format(most=MAX_DRAWN) + more), class_="under")
    return rule + "".join([*differing, *equal]) if drawn else ""


def _left_out(pair: Pair, pair_number: int, index: int, several_boards: bool) -> str:
    head = _head(pair.drawings[index], pair.a, pair.b, describe_place(pair, several_boards))
    text_line = element("p", head, text("; the page would be too large, --plots DIR draws it"))
    return element("div", text_line, id=f"d{pair_number}-{index}", class_="drawn")


def _head(d: TensorDrawing, a: str, b: str, place: str) -> str:
    name = d.name if len(d.name) <= MAX_NAME_LENGTH else f"{d.name[:MAX_NAME_LENGTH]} ... ({len(d.name)} characters)"
    differs = f"{d.differing} of {d.elements} elements differ" if d.differing else "equal"
    return element("code", text(name)) + text(f" {d.op}, {a} ~ {b}{place}: {differs}")


def _of_pair(pair: Pair, pair_number: int, index: int, several_boards: bool, first: bool) -> str:
    return tensor(
        pair.drawings[index], pair.a, pair.b, describe_place(pair, several_boards), f"d{pair_number}-{index}", first
    )


def tensor(d: TensorDrawing, a: str, b: str, place: str, anchor: str, opened: bool) -> str:
    """Returns the drawings of one tensor of sides a and b, folded unless opened. place: frame and board, if there are
    several. anchor: id of the section."""
    head = _head(d, a, b, place)
    facts = f"{d.dtype} {'x'.join(map(str, d.shape))}; drawn because: {d.why}"
    facts += f"; the same bytes in {', '.join(d.also)}" if d.also else ""
    figures = [_figure(f) for f in panels.figures(d, a, b)]
    table = _first(d.first, a, b, d.name[:MAX_NAME_LENGTH]) if d.first else ""
    inside = [element("p", text(facts), class_="under"), element("div", *figures, table, class_="drawings")]
    return element("details", element("summary", element("h3", head)), *inside, id=anchor, class_="drawn", open=opened)


def _figure(figure: Figure) -> str:
    caption = element("figcaption", text(figure.caption))
    return element("figure", svg.draw(figure), caption)


def _first(differences: list[DifferingElement], a: str, b: str, name: str) -> str:
    heads = element("tr", *(element("th", text(n), scope="col") for n in ("index", a, b, "difference")))
    rows = [
        element(
            "tr",
            element("th", text(list(d.index)), scope="row"),
            *(element("td", number(v)) for v in (d.a, d.b, d.b - d.a)),
        )
        for d in differences
    ]
    caption = element("caption", text(f"The first elements of {name} that differ, as stored"))
    table = element("table", caption, element("thead", heads), element("tbody", *rows), class_="first")
    return element("div", table, class_="wide", tabindex=0, role="region", aria_label=f"first differences of {name}")


def _input(drawn: InputDrawing, with_frame: bool) -> str:
    """Returns an input's picture and histogram. with_frame: True to name its frame."""
    name = drawn.name[:MAX_NAME_LENGTH]
    frame = f", frame {drawn.frame}: {drawn.source[:MAX_NAME_LENGTH]}" if with_frame else ""
    kind = f" {drawn.dtype} {'x'.join(map(str, drawn.shape))}{frame}"
    parts = [element("h3", element("code", text(name)), text(kind))]
    shown = []
    if drawn.picture is not None:
        height, width, _ = drawn.picture.shape
        data = base64.b64encode(pixels(drawn.picture)).decode()
        scale = max(1, round(PICTURE_SIDE / max(height, width)))
        description = f"the input {name}{frame}, as a picture"
        picture = element(
            "img", src=f"data:image/png;base64,{data}", alt=description, width=width * scale, height=height * scale
        )
        caption = element("figcaption", text(f"As it was fed, as a picture: {drawn.shown}"))
        shown.append(element("figure", picture.removesuffix("</img>"), caption))
    if drawn.values is not None:
        shown.append(_figure(panels.values(drawn.values, name, "")))
    return "".join(parts) + element("div", *shown, class_="drawings")
