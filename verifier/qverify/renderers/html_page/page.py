"""Renders the page of a run: verdict and reasons on top, then curve, tensors, graph, and facts about the run."""

from __future__ import annotations

from qverify.renderers.html_page import (
    around,
    curve,
    one_graph,
    run_facts,
    sequence,
    task_numbers,
    tensor_drawings,
    tensors,
)
from qverify.renderers.html_page.elements import MARKS, code, element, listed, text, verdict
from qverify.renderers.html_page.frame import Section, page
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.pair_facts import describe_equality
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.verdict_lines import CAUSES
from qverify.report.document import Blame, Pair, ReportDocument

MAX_BLAMED = 3  # cards at the top of the page
MAX_ROWS, MAX_OTHER_ROWS = 2500, 200  # tensors of the first pair's frame and board; of others
MAX_PAGE_BYTES, MIN_DRAWING_BYTES = 2_700_000, 300_000  # drawings may always take the latter
ORDER = {"FAILED": 0, "INCONCLUSIVE": 1, "PASSED": 2}


def render(report: ReportDocument) -> str:
    """Returns the page as HTML. report: all its texts must be printable."""
    models = ", ".join(str(m.get("path", "")) for m in report.models)
    title = f"qverify: {report.verdict}" + (f", {models}" if models else "")
    pairs = sorted(enumerate(report.pairs), key=lambda pair: ORDER[pair[1].verdict])
    pairs_with_tensors = _pairs_with_tensors(pairs)
    network = around.network_of(report, lambda pair, row: f"t{pair}-{row}" if pair in pairs_with_tensors else "")
    sections_above = [
        one_graph.section(network, report.blamed),
        _blamed(report, network),
        Section("task", "Task numbers", task_numbers.section_text(report)),
        Section("sequence", "Steps", sequence.section_text(report)),
        Section("shapes", "Shapes", run_facts.shapes(report)),
        Section("checks", "Further runs of the board", run_facts.checks(report)),
        Section("frames", "Frames", run_facts.frames(report)),
    ]
    several, ids = len(report.boards), tensor_drawings.anchors(report.pairs)
    of_pairs = [(pair, _pair(pair, at, network, several, ids[at], at in pairs_with_tensors)) for at, pair in pairs]
    sections_above += _first_and_folded(of_pairs)
    sections_below = [
        _graph(network),
        Section("ledger", "Coverage ledger", run_facts.ledger(report)),
        Section("options", "How it was judged", run_facts.options(report)),
        *run_facts.sections(report),
        Section("notes", "Everything the report says", _folded("the report as lines", listed(summary_lines(report)))),
    ]
    room = MAX_PAGE_BYTES - sum(len(section.inside.encode()) for section in (*sections_above, *sections_below))
    drawn = tensor_drawings.sections(report, [at for at, _ in pairs], max(room, MIN_DRAWING_BYTES))
    sections = [*sections_above, *drawn, *sections_below]
    return page(title, _top(report, models), sections)


def _pairs_with_tensors(ordered: list[tuple[int, Pair]]) -> set[int]:
    """Returns the numbers of the pairs with tensors on the page: pairs of the first pair's frame and board (the pair of
    the host's sides has no board), and others while there is room."""
    kept, room = set[int](), {True: MAX_ROWS, False: MAX_OTHER_ROWS}
    board = next((pair.board for _, pair in ordered if pair.board is not None), None)
    for at, pair in ordered:
        of_first = pair.frame == ordered[0][1].frame and pair.board in (None, board)
        if not kept or len(pair.tensors) <= room[of_first]:
            kept.add(at)
            room[of_first] -= len(pair.tensors)
    return kept


def _top(report: ReportDocument, models: str) -> str:
    verdict_items = [
        element(
            "li", element("span", MARKS[found_verdict], class_=f"verdict {found_verdict.lower()}"), " ", text(words)
        )
        for found_verdict, words in overall_lines(report)
    ]
    blamed = _blames(report)
    roles = dict.fromkeys(role.sentence() for task in report.tasks for role in task.blamed)
    blamed += [element("p", text(f"{sentence}."), class_="blame") for sentence in [*roles][:MAX_BLAMED]]
    if report.verdict == "FAILED" and not blamed:
        causes = dict.fromkeys(CAUSES.get(p.cause or "", p.cause or "") for p in report.pairs if p.verdict == "FAILED")
        blamed = [element("p", text("; ".join(["No node is to blame", *filter(None, causes)])), ".", class_="blame")]
    boards = f" on {text(', '.join(report.boards))}" if report.boards else ""
    return element(
        "header",
        element("h1", element("span", "qverify ", class_="brand"), verdict(report.verdict)),
        element(
            "p", f"{text(models)}{boards}; {text(when(report.date))}; qverify {text(report.qverify)}", class_="under"
        ),
        *blamed,
        element("ul", *verdict_items, class_="lines"),
    )


def when(date: str) -> str:
    """Returns a report's date in a readable form."""
    return date.replace("T", " ").replace("+00:00", " UTC")


def _blames(report: ReportDocument) -> list[str]:
    """Returns a card for each blamed side and node, at most MAX_BLAMED; several frames and boards may blame the same
    node."""
    by_node: dict[tuple[str, str], list[Blame]] = {}
    for blame in report.blamed:
        by_node.setdefault((blame.side, blame.node), []).append(blame)
    cards = [
        _blame(next((b for b in blames if b.cause), blames[0]), len(blames))
        for blames in [*by_node.values()][:MAX_BLAMED]
    ]
    if len(by_node) > MAX_BLAMED:
        cards.append(
            element("p", f"{len(by_node) - MAX_BLAMED} more are blamed in other frames or boards.", class_="under")
        )
    return cards


def _blame(blame: Blame, times: int) -> str:
    cause = f" {text(blame.cause.sentence)}." if blame.cause is not None else ""
    again = f" The same node in {times} of the frames or boards." if times > 1 else ""
    also = f" Also at {', '.join(map(code, blame.also))}." if blame.also else ""
    return element(
        "p",
        f"{element('strong', text(blame.side))} is to blame {place(blame)}. {text(blame.why)}.{cause}{also}{again}",
        class_="blame",
    )


def place(blame: Blame) -> str:
    """Returns where the fault is, in words: at a node, or between two tensors."""
    return f"at {code(blame.node)}" if blame.region is None else text(blame.place)


def _blamed(report: ReportDocument, network: around.Network | None) -> Section:
    """Returns the graph around the first blamed node of each side, up to a distance of two nodes, without
    repetitions."""
    parts = list[str]()
    for blame in [*{(b.side, b.node): b for b in report.blamed}.values()][:MAX_BLAMED]:
        at = None if network is None else network.find(blame.node)
        if network is not None and at is not None:
            parts += [element("h3", f"{text(blame.side)} {place(blame)}"), around.figure(network, at, hops=2)]
    legend = element("p", text(_of(network)), class_="under") if parts else ""
    return Section("blamed", "Around the blamed node", "".join(parts) + legend)


def _of(network: around.Network | None) -> str:
    frame = network.pairs[0].frame if network is not None and network.pairs else 0
    return around.LEGEND + (f"; as of frame {frame}" if frame else "")


def _pair(
    pair: Pair, at: int, network: around.Network | None, boards: int, drawings: dict[str, str], whole: bool
) -> Section:
    """Returns the section of one pair. boards: number of boards in the run; the title names the board if there are
    several. drawings: ids of the drawn tensors' sections. whole: True to include its tensors."""
    words = (pair.board if boards > 1 else "", f"frame {pair.frame}" if pair.frame else "")
    title = f"{pair.a} ~ {pair.b}{''.join(f', {word}' for word in words if word)}"
    heading = f"{text(title)}: {verdict(pair.verdict)}"
    if not pair.tensors:
        return Section(f"p{at}", title, "", heading, "pair")
    covered, first = pair.coverage, pair.first_divergence
    summary = (
        f"{covered.compared} of {covered.expected} tensors compared, {covered.elements} elements"
        + (f" ({covered.by_digest} of them by digest)" if covered.by_digest else "")
        + f", {len(covered.missing)} missing; {describe_equality(pair)}"
    )
    parts = [
        element("p", text(summary)),
        element("p", f"First divergence: {code(first.tensor)} ({text(first.what)})") if first else "",
        listed([*(f"{m.tensor} is missing in {m.side}: {m.why}" for m in covered.missing), *pair.notes]),
    ]
    drawn = [_tools(), tensors.table(pair, f"t{at}-", _links(pair, network), drawings)]
    if not whole:
        left = f"its {len(pair.tensors)} tensors would make the page too large; the JSON report has them"
        drawn = [element("p", text(left), class_="under")]
    elif not (pair.bit_equal and pair.verdict == "PASSED"):
        drawn.insert(0, curve.draw(pair, f"t{at}-"))
    return Section(f"p{at}", f"{title}: {pair.verdict}", "".join([*parts, *drawn]), heading, "pair")


def _first_and_folded(of_pairs: list[tuple[Pair, Section]]) -> list[Section]:
    """Returns the sections of pairs: of every two sides the first, the worst, if something in it is remarkable, and one
    section in which all others are folded."""
    own, folded, seen = list[Section](), list[str](), set[tuple[str, str]]()
    for pair, section in of_pairs:
        equal = pair.bit_equal and pair.verdict == "PASSED"
        if (pair.a, pair.b) not in seen and not equal:
            own.append(section)
        elif section.inside:
            words = f"{section.heading} {text(f'{pair.coverage.compared} of {pair.coverage.expected} tensors, {describe_equality(pair)}')}"
            folded.append(element("details", element("summary", words), section.inside, id=section.id, class_="pair"))
        seen.add((pair.a, pair.b))
    title = "Other comparisons" if own else "Comparisons"
    return [*own, Section("others", f"{title}: {len(folded)}", "".join(folded), title)]


def _folded(summary: str, inside: str) -> str:
    return element("details", element("summary", text(summary)), inside)


def _tools() -> str:
    return element(
        "p",
        element("label", "Filter ", element("input", type="search", class_="filter").removesuffix("</input>")),
        element(
            "label",
            element("input", type="checkbox", class_="differing").removesuffix("</input>"),
            " only what differs",
        ),
        element("span", class_="found", role="status"),
        class_="tools",
        hidden=True,
    )


def _links(pair: Pair, network: around.Network | None) -> dict[str, str]:
    """Returns the ids of the graphs around tensors, by tensor."""
    if network is None:
        return {}
    return {row.name: f"g{network.makers[row.name]}" for row in pair.tensors if row.name in network.makers}


def _graph(network: around.Network | None) -> Section:
    if network is None:
        return Section("graph", "The graph, node by node", "")
    drawn, parts = around.units_to_draw(network), list[str]()
    for at, unit in enumerate(network.units):
        state = network.unit_state(at)
        summary = element("summary", f"{around.SIGNS[state]} {code(unit.node)} {text(unit.op)}: {around.WORDS[state]}")
        parts.append(
            element("details", summary, around.figure(network, at, 1, at in drawn), id=f"g{at}", class_="around")
        )
    left = len(network.units) - len(drawn)
    rule = (
        f"; {len(drawn)} nodes are drawn, those that do not agree before others, {left} are described" if left else ""
    )
    return Section(
        "graph", "The graph, node by node", element("p", text(_of(network) + rule), class_="under") + "".join(parts)
    )
