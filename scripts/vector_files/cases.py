"""Computes what was drawn as the simulator does under an arithmetic, and chooses the cases that tell forms apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from qverify.arithmetic.forms import REFERENCE, Form, FormsOfOps
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import LEGAL, MISTAKES
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.kinds_of_nodes import find_of_node
from qverify.model_bin.units import units
from qverify.onnx_model.write_probes import write_probes
from qverify.sides.simulator import Simulator

from scripts.vector_files.drawn import Array, Drawn

PER_FORM = 2  # items that contradict another form, of each that is contradicted
MOST_RANDOM = 12


@dataclass
class Found:
    """The cases of an op.

    cases: as in the file. alike: forms that no case contradicts; None before the first case. refused: why operators that
    were drawn have no case. unlike: why the op has no vectors at all, because the simulator does not compute its form."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    alike: set[str] | None = None
    refused: dict[str, str] = field(default_factory=dict)
    unlike: str = ""


@dataclass
class Computed:
    """An operator with all of its results. node: of the graph as the reference computes it. parameters: the integer
    parameters of the form, or None."""

    drawn: Drawn
    node: Node
    graph: Graph
    given: Mapping[str, Array]
    output: Array
    parameters: Array | None


@dataclass
class Network:
    """Operators beside each other, compiled as one network. forms: those of an arithmetic, or None."""

    drawn: Sequence[Drawn]
    forms: FormsOfOps | None = None

    def __post_init__(self) -> None:
        source = write_probes([one.probe for one in self.drawn])
        self.graph = compile_model(source, "vectors", CompilerOptions(check=False, arithmetic=self.forms)).graph
        self._makers = {name: node for node in self.graph.nodes for name in node.outputs}
        self._units, self._simulator = units(self.graph), Simulator(self.graph)

    def node_of(self, drawn: Drawn) -> Node:
        """Returns the node of an operator."""
        return self._makers[drawn.probe.output]

    def key_of(self, drawn: Drawn, keys: Iterable[str]) -> str:
        """Returns the key of the table that states the operator, "" if none does."""
        return find_of_node({k: k for k in keys}, self.node_of(drawn), self.graph) or ""

    def run(self) -> dict[str, Array]:
        """Returns every tensor."""
        values = {name: np.asarray(v) for one in self.drawn for name, v in one.probe.feeds().items()}
        for unit in self._units:
            values |= self._simulator.run_unit(unit, values)
        return values


def compute(drawn: Sequence[Drawn], forms: FormsOfOps) -> tuple[list[Computed], dict[str, str]]:
    """Returns what was drawn, computed by the simulator under an arithmetic, and why the others cannot be, by what they
    are."""
    try:
        return _compute(drawn, forms), {}
    except QVerifyError:
        pass
    found: list[Computed] = []
    refused: dict[str, str] = {}
    for one in drawn:
        try:
            found += _compute([one], forms)
        except QVerifyError as error:
            refused[one.what] = " ".join(str(error).split())
    return found, refused


def _compute(drawn: Sequence[Drawn], forms: FormsOfOps) -> list[Computed]:
    if not drawn:
        return []
    stated, exact = Network(drawn, forms), Network(drawn)
    values, reference, found = stated.run(), exact.run(), []
    for one in drawn:
        node = exact.node_of(one)
        last = stated.graph.constants.get(stated.node_of(one).inputs[-1] or "")
        has_steps = last is not None and last.dtype == np.int32 and last.shape[:1] in ((5,), (3,))
        given = {n: reference[n] for n in node.inputs if n is not None and n in reference}
        output = values[one.probe.output]
        found.append(Computed(one, node, exact.graph, given, output, last if has_steps else None))
    return found


def add_case(found: Found, computed: Computed, form: str) -> None:
    """Adds the case of an operator. Where the catalogue computes the form in its own way, both must agree."""
    drawn, others = computed.drawn, _other_forms(computed)
    results = drawn.items_of(computed.output)
    if form in others and not np.array_equal(others[form], results):
        found.unlike = f"compile --arithmetic does not compute {form!r} of {drawn.what}"
        return
    if form not in others and Form.parse(form).method:
        found.refused[drawn.what] = f"nothing else computes {form!r} of {drawn.what}"
        return
    apart = {name: (values != results).any(axis=1) for name, values in others.items()}
    chosen = _choose(drawn, apart)
    alike = {name for name, differs in apart.items() if not differs[chosen].any() and name != form}
    found.alike = alike if found.alike is None else found.alike & alike
    low, high = (int(v) for v in computed.node.words[-2:]) if _has_limits(computed) else _limits(drawn.types[-1])
    case: dict[str, Any] = {"what": drawn.what, "types": [*drawn.types], "scales": [*drawn.scales]}
    case |= {"zeros": [*drawn.zeros], "limits": [low, high, *(_limits(t)[0] for t in drawn.types)]}
    case |= {"count": drawn.count, "a": _flat(drawn.a[chosen])}
    case |= {"b": _flat(drawn.b[chosen])} if drawn.b is not None else {}
    case |= {"result": _flat(results[chosen])}
    if computed.parameters is not None:
        rows = computed.parameters if len(computed.parameters) == 3 else computed.parameters[:, :1].T
        case["steps"] = rows.tolist()
    found.cases.append(case)


def check_method(found: Found, form: str) -> None:
    """Leaves an op out whose cases do not show that the simulator computes the method of its form."""
    plain = str(replace(Form.parse(form), method=""))
    if plain != form and plain in (found.alike or ()):
        found.unlike = f"no case tells {form!r} from {plain!r}"


def _has_limits(computed: Computed) -> bool:
    return computed.node.op not in ("lookup", "concat", "softmax")


def _limits(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _flat(values: Array) -> list[int]:
    return [int(v) for v in values.reshape(-1)]


def _other_forms(computed: Computed) -> dict[str, Array]:
    """Returns all results under each form of the catalogue, and as the reference computes them."""
    output = computed.drawn.probe.output
    unit = next(u for u in units(computed.graph) if output in u.outputs)
    rounded = Rounded(unit, output, computed.graph, dict(computed.given))
    made = Simulator(computed.graph).run_unit(unit, computed.given)[output]
    found = {REFERENCE: made}
    for name in (*LEGAL, *MISTAKES):
        try:
            values = rounded.formulas[name](np.arange(made.size))
        except (KeyError, ValueError):  # a form that the op does not have, or that cannot have this scale
            continue
        found[name] = values.reshape(made.shape)
    return {name: computed.drawn.items_of(values) for name, values in found.items()}


def _choose(drawn: Drawn, apart: Mapping[str, Array]) -> Array:
    """Returns the numbers of the items that are taken: the edges, some that contradict each other form, and others."""
    taken, size = [*range(drawn.edges)], len(drawn.a)
    rare = sorted(apart.values(), key=np.count_nonzero)
    for differs in rare:
        at = np.flatnonzero(differs)
        if len(taken) < drawn.most and not differs[taken].sum() >= PER_FORM:
            taken += [int(i) for i in at[[0, -1]] if len(at)][:PER_FORM] if len(at) else []
    rest = np.linspace(drawn.edges, size - 1, MOST_RANDOM).astype(int)
    return np.array(list(dict.fromkeys([*taken, *(int(i) for i in rest)]))[: max(drawn.most, drawn.edges)])


def parameters_of(form: str) -> dict[str, Any]:
    """Returns the fields of a form that are set."""
    fields = asdict(Form.parse(form))
    return {name: value for name, value in fields.items() if value or name == "rounding"}
