"""What is drawn of each tensor, a section for each, and the inputs that were fed."""

from __future__ import annotations

import base64

from qverify.renderers.drawings import panels, svg
from qverify.renderers.drawings.plot_files import place_of
from qverify.renderers.drawings.png import pixels
from qverify.renderers.drawings.shapes import Figure
from qverify.renderers.html_page.elements import element, number, text
from qverify.renderers.html_page.frame import Section
from qverify.report.document import Pair, Report
from qverify.report.drawings import MOST, RULE, DifferingElement, InputDrawing, TensorDrawing

FEWEST_BYTES = 300_000  # of the drawings, whatever else the page has
MOST_FED = 900_000  # bytes of the inputs
RULE_FED = "Drawn are the inputs of the worst frames that are not PASSED, at most six; of one frame where all are."
PICTURE = 224  # pixels of an input's longer side, about
LONGEST = 200  # characters of a name in a heading


def anchors(pairs: list[Pair]) -> list[dict[str, str]]:
    """Returns for each pair the ids of its drawn tensors' sections, by name; a section of another pair with the very same
    bytes is also its own."""
    several = len({pair.board for pair in pairs} - {None}) > 1
    return [
        {
            drawing.name: f"d{number_of}-{at}"
            for number_of, other in enumerate(pairs)
            for at, drawing in enumerate(other.drawings)
            if other is pair or (not several and _shares(drawing, other, pair))
        }
        for pair in pairs
    ]


def _shares(drawing: TensorDrawing, drawn: Pair, pair: Pair) -> bool:
    """Returns whether the drawing of pair `drawn` is that of another pair of the same frame, too."""
    return drawn.frame == pair.frame and f"{pair.a} ~ {pair.b}" in drawing.also


def sections(report: Report, order: list[int], room: int) -> list[Section]:
    """Returns the sections of inputs and tensors; those without any are left out of the page. order: the numbers of the
    pairs. room: bytes that both may take, though the drawings get FEWEST_BYTES in any case."""
    fed = inputs(report.input_drawings, len(report.frames))
    drawn = _tensors(report, order, max(room - len(fed.inside), FEWEST_BYTES))
    return [Section("drawn", "Tensors, drawn", drawn), fed]


def inputs(drawn: list[InputDrawing], frames: int) -> Section:
    """Returns the section of what was fed. frames: how many the run had, 0 or 1 where the frame needs no name."""
    parts, room, left = list[str](), MOST_FED, 0
    for one in drawn:
        part = _input(one, frames > 1)
        left += len(part) > room
        parts += [part] if len(part) <= room else []
        room -= len(part) if len(part) <= room else 0
    more = f" {left} more would make the page too large." if left else ""
    rule = element("p", text(RULE_FED + more), class_="under") if frames > 1 or more else ""
    return Section(
        "inputs", "Inputs of the worst frames" if frames > 1 else "Inputs", rule + "".join(parts) if drawn else ""
    )


def _tensors(report: Report, order: list[int], room: int) -> str:
    drawn = [(pair, at) for pair in order for at in range(len(report.pairs[pair].drawings))]
    shown, left, several = list[str](), list[str](), len(report.boards) > 1
    for pair, at in drawn:
        one = _of_pair(report.pairs[pair], pair, at, several, first=not shown)
        if len(one) > room:
            left.append(one)
            shown.append(_left_out(report.pairs[pair], pair, at, several))
        else:
            shown.append(one)
            room -= len(one)
    more = f" {len(left)} more would make the page too large." if left else ""
    rule = element("p", text(RULE.format(most=MOST) + more), class_="under")
    return rule + "".join(shown) if shown else ""


def _left_out(pair: Pair, number_of: int, at: int, several: bool) -> str:
    head = _head(pair.drawings[at], pair.a, pair.b, place_of(pair, several))
    said = element("p", head, text("; the page would be too large, --plots DIR draws it"))
    return element("div", said, id=f"d{number_of}-{at}", class_="drawn")


def _head(d: TensorDrawing, a: str, b: str, place: str) -> str:
    name = d.name if len(d.name) <= LONGEST else f"{d.name[:LONGEST]} ... ({len(d.name)} characters)"
    differs = f"{d.differing} of {d.elements} elements differ" if d.differing else "equal"
    return element("code", text(name)) + text(f" {d.op}, {a} ~ {b}{place}: {differs}")


def _of_pair(pair: Pair, number_of: int, at: int, several: bool, first: bool) -> str:
    return tensor(pair.drawings[at], pair.a, pair.b, place_of(pair, several), f"d{number_of}-{at}", first)


def tensor(d: TensorDrawing, a: str, b: str, place: str, anchor: str, opened: bool) -> str:
    """Returns what is drawn of one tensor of sides a and b, folded unless opened. place: frame and board, where there are
    several."""
    head = _head(d, a, b, place)
    facts = f"{d.dtype} {'x'.join(map(str, d.shape))}; drawn because: {d.why}"
    facts += f"; the same bytes in {', '.join(d.also)}" if d.also else ""
    figures = [_figure(f) for f in panels.figures(d, a, b)]
    table = _first(d.first, a, b, d.name[:LONGEST]) if d.first else ""
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


def _input(drawn: InputDrawing, named: bool) -> str:
    """Returns an input's picture and values. named: with its frame."""
    name = drawn.name[:LONGEST]
    frame = f", frame {drawn.frame}: {drawn.source[:LONGEST]}" if named else ""
    kind = f" {drawn.dtype} {'x'.join(map(str, drawn.shape))}{frame}"
    parts = [element("h3", element("code", text(name)), text(kind))]
    shown = []
    if drawn.picture is not None:
        height, width, _ = drawn.picture.shape
        data = base64.b64encode(pixels(drawn.picture)).decode()
        scale = max(1, round(PICTURE / max(height, width)))
        said = f"the input {name}{frame}, as a picture"
        picture = element(
            "img", src=f"data:image/png;base64,{data}", alt=said, width=width * scale, height=height * scale
        )
        caption = element("figcaption", text(f"As it was fed, as a picture: {drawn.shown}"))
        shown.append(element("figure", picture.removesuffix("</img>"), caption))
    if drawn.values is not None:
        shown.append(_figure(panels.values(drawn.values, name, "")))
    return "".join(parts) + element("div", *shown, class_="drawings")
