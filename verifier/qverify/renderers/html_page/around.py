"""Draws the graph around a node: its inputs, its readers, the ONNX nodes that it stands for, and where the sides
agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from qverify.plural import count
from qverify.renderers.html_page.elements import element, facts, text
from qverify.renderers.html_page.layered import NodeBox, draw
from qverify.report.document import NetworkUnit, Pair, ReportDocument
from qverify.report.triage_document import Neighbour, Neighbourhood

SHORT = {"reference": "ref", "simulator": "sim"}
SIGNS = {"agrees": "=", "differs": "~", "fails": "X", "unknown": "?"}
WORDS = {"agrees": "agrees", "differs": "differs", "fails": "fails when recomputed", "unknown": "not known"}
ORDER = ("fails", "differs", "unknown", "agrees")
MARKS = {"agree": "agrees", "given": "agrees", "differ": "differs", "fails forced": "fails", "not known": "unknown"}
LEGEND = "= agrees, ~ differs, X fails when it is recomputed from its recorded inputs, ? not known"
MAX_NEIGHBOURS = 6  # drawn inputs or readers of a node; the text below names the others
MAX_DRAWN = 120  # nodes with a drawing; the others have a text only


@dataclass(slots=True)
class Network:
    """The units of a report, with the states of their tensors.

    Attributes:
        units: the units, in running order.
        pairs: the pairs of one frame and board.
        rows: id of a tensor's row on the page, by tensor.
        ids: the same for each pair.
        makers: number of the unit that computes a tensor, by tensor.
        readers: numbers of the units that read a tensor, by tensor.
    """

    units: list[NetworkUnit]
    pairs: list[Pair]
    rows: Mapping[str, str]
    ids: list[dict[str, str]] = field(default_factory=list)
    makers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)
    _states: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.makers = {name: at for at, unit in enumerate(self.units) for name in unit.outputs}
        for at, unit in enumerate(self.units):
            for name in dict.fromkeys(unit.inputs):
                self.readers.setdefault(name, []).append(at)
        self._states = [_states(pair) for pair in self.pairs]

    def state(self, tensor: str) -> list[str]:
        """Returns the state of a tensor in each pair: agrees, differs, fails or unknown."""
        given = "unknown" if tensor in self.makers else "agrees"  # all sides received the same inputs of the network
        return [states.get(tensor, given) for states in self._states]

    def unit_state(self, at: int) -> str:
        """Returns the worst state of a unit's outputs in any pair."""
        return _worst_state(state for name in self.units[at].outputs for state in self.state(name))

    def find(self, node: str) -> int | None:
        """Returns the number of the unit with this name, or of the unit that computes the tensor of this name; None if
        there is none."""
        named = next((at for at, unit in enumerate(self.units) if unit.node == node), None)
        return named if named is not None else self.makers.get(node)


def _states(pair: Pair) -> dict[str, str]:
    states = {name: "agrees" if same else "differs" for name, same in pair.same_bytes.items()}
    for row in pair.tensors:
        failed = row.forced is not None and row.forced.verdict == "FAILED"
        states[row.name] = "fails" if failed else "agrees" if row.bit_equal else "differs"
    return states


def _worst_state(states: Iterable[str]) -> str:
    present = set(states)
    return next((state for state in ORDER if state in present), "unknown")


def network_of(report: ReportDocument, anchor: Callable[[int, int], str]) -> Network | None:
    """Returns the network with the states in the worst frame and board, or None without units. anchor: returns the id
    of a row, given the number of its pair and of the row; "" if the row is not on the page."""
    if not report.units or not report.pairs:
        return None
    order = {"FAILED": 0, "INCONCLUSIVE": 1, "PASSED": 2}
    first = min(report.pairs, key=lambda p: (order[p.verdict], not p.tensors))
    board = first.board or next((p.board for p in report.pairs if p.frame == first.frame and p.board), None)
    kept = [(at, p) for at, p in enumerate(report.pairs) if p.frame == first.frame and p.board in (None, board)]
    pairs = [pair for _, pair in kept]
    ids = [{row.name: id_of for n, row in enumerate(p.tensors) if (id_of := anchor(at, n))} for at, p in kept]
    rows = dict[str, str]()
    for at in sorted(range(len(kept)), key=lambda k: order[pairs[k].verdict]):
        rows = ids[at] | rows
    return Network(report.units, pairs, rows, ids)


def units_to_draw(network: Network) -> set[int]:
    """Returns the numbers of the units to draw, at most MAX_DRAWN: first those that fail or differ, in running
    order."""
    order = sorted(range(len(network.units)), key=lambda at: ORDER.index(network.unit_state(at)))
    return set(order[:MAX_DRAWN])


def figure(network: Network, at: int, hops: int = 1, drawing: bool = True) -> str:
    """Returns the figure of one unit: a drawing, if `drawing` is True, and a text. hops: maximal distance of drawn
    nodes."""
    unit = network.units[at]
    distances = _near(network, at, hops)
    boxes = {name: _box(network, name, distance == 0) for name, distance in distances.items()}
    edges = [
        (_key(network, tensor), f"u{reader}")
        for reader in (int(n[1:]) for n in distances if n.startswith("u"))
        for tensor in dict.fromkeys(network.units[reader].inputs)
        if _key(network, tensor) in distances
    ]
    label = f"the graph around {unit.node}"
    picture = draw(boxes, list(dict.fromkeys(edges)), label) if drawing else ""
    drawn = element("div", picture, class_="wide", tabindex=0) if drawing else ""
    return element("figure", drawn, element("figcaption", _words(network, at)), class_="beside")


def _key(network: Network, tensor: str) -> str:
    maker = network.makers.get(tensor)
    return f"i{tensor}" if maker is None else f"u{maker}"


def _near(network: Network, at: int, hops: int) -> dict[str, int]:
    """Returns the distances of the boxes to draw, by their key: u and the number of a unit, or i and the name of an
    input."""
    distances = {f"u{at}": 0}
    for distance in range(1, hops + 1):
        for name in [n for n, d in distances.items() if d == distance - 1 and n.startswith("u")]:
            unit = network.units[int(name[1:])]
            above = [_key(network, tensor) for tensor in unit.inputs]
            below = [f"u{reader}" for tensor in unit.outputs for reader in network.readers.get(tensor, [])]
            for side in (above, below):
                for neighbour in list(dict.fromkeys(side))[:MAX_NEIGHBOURS]:
                    distances.setdefault(neighbour, distance)
    order = {name: int(name[1:]) if name[0] == "u" else -1 for name in distances}
    return {name: distances[name] for name in sorted(distances, key=lambda n: order[n])}


def _box(network: Network, name: str, emphasised: bool) -> NodeBox:
    if name.startswith("i"):
        return NodeBox(f"{name[1:]}: an input of the network", (name[1:], "input", "the same for all"), "agrees")
    at = int(name[1:])
    unit, state = network.units[at], network.unit_state(at)
    states = _state_texts(network, at, True)
    covered = f", {count(len(unit.covers), 'ONNX node')}" if unit.covers else ""
    title = f"{unit.node}: {unit.op}; {'; '.join(_state_texts(network, at, False))}"
    tensor = unit.outputs[0] if unit.outputs else unit.node
    link = next((network.rows[o] for o in unit.outputs if o in network.rows), "")
    return NodeBox(
        title, (tensor, f"{unit.op}{covered}", "  ".join(states)), state, f"#{link}" if link else "", emphasised
    )


def _state_texts(network: Network, at: int, short: bool) -> list[str]:
    """Returns texts on the state of a unit in each pair, or one text if all pairs agree. short: True for signs, False
    for words."""
    outputs = network.units[at].outputs
    by_pair = [_worst_state(network.state(name)[n] for name in outputs) for n in range(len(network.pairs))]
    if len(set(by_pair)) == 1:
        return [f"{SIGNS[by_pair[0]]} all pairs" if short else f"{WORDS[by_pair[0]]} in all pairs"]
    names = [f"{SHORT.get(p.a, p.a)}~{SHORT.get(p.b, p.b)}" for p in network.pairs]
    if not short:
        return [f"{name} {WORDS[state]}" for name, state in zip(names, by_pair, strict=True)]
    groups = {s: [n for n, state in zip(names, by_pair, strict=True) if state == s] for s in ORDER if s in by_pair}
    return [f"{SIGNS[state]} {' '.join(group)}" for state, group in groups.items()]


def _words(network: Network, at: int) -> str:
    unit = network.units[at]
    rows = [("reads", _tensors(network, unit.inputs))]
    rows += [("computes", _tensors(network, unit.outputs))] if unit.outputs != [unit.node] else []
    readers = [o for n in unit.outputs for r in network.readers.get(n, []) for o in network.units[r].outputs[:1]]
    rows += [("read by", _tensors(network, dict.fromkeys(readers)))] if readers else []
    covers = ", ".join(element("code", text(name)) for name in unit.covers)
    rows += [("stands for", f"{covers} of the original ONNX")] if covers else []
    return facts([(name, value or "constants only") for name, value in rows])


def _tensors(network: Network, names: Iterable[str]) -> str:
    return ", ".join(_tensor(network, name) for name in dict.fromkeys(names))


def _tensor(network: Network, name: str) -> str:
    shown = element("code", text(name))
    link = network.rows.get(name)
    shown = element("a", shown, href=f"#{link}") if link else shown
    return f"{shown} ({WORDS[_worst_state(network.state(name))] if name in network.makers else 'input of the network'})"


def neighbourhood(diverging: Neighbourhood, units: Iterable[NetworkUnit]) -> str:
    """Returns the figure of a diverging tensor of triage with its neighbours, and the ONNX nodes that its unit stands
    for."""
    above, below = diverging.above[:MAX_NEIGHBOURS], diverging.below[:MAX_NEIGHBOURS]
    boxes = {"at": _neighbour(diverging.at, True)}
    boxes |= {f"a{n}": _neighbour(neighbour) for n, neighbour in enumerate(above)}
    boxes |= {f"b{n}": _neighbour(neighbour) for n, neighbour in enumerate(below)}
    edges = [(name, "at") for name in boxes if name[0] == "a" and name != "at"]
    edges += [("at", name) for name in boxes if name[0] == "b"]
    label = f"the graph around {diverging.at.tensor}"
    not_drawn = len(diverging.above) + len(diverging.below) - len(above) - len(below)
    caption = text(f"{LEGEND}; {not_drawn} more are not drawn" if not_drawn else LEGEND)
    covers = next((u.covers for u in units if diverging.at.tensor in u.outputs), [])
    named = ", ".join(element("code", text(name)) for name in covers)
    caption += (
        f"<br>{element('code', text(diverging.at.tensor))} stands for {named} of the original ONNX" if named else ""
    )
    picture = draw(boxes, edges, label)
    return element(
        "figure",
        element("div", picture, class_="wide", tabindex=0),
        element("figcaption", caption),
    )


def _neighbour(neighbour: Neighbour, emphasised: bool = False) -> NodeBox:
    state = MARKS.get(neighbour.mark, "unknown")
    words = neighbour.why or ("given" if neighbour.mark == "given" else WORDS[state])
    return NodeBox(
        f"{neighbour.tensor}: {neighbour.op}; {neighbour.mark} {neighbour.why}",
        (neighbour.tensor, neighbour.op, f"{SIGNS[state]} {words}"),
        state,
        "",
        emphasised,
    )
