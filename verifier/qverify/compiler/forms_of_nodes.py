"""Gives the nodes of a graph the forms of an arithmetic (verifier/ARITHMETICS.md): their rq, their tables, and tables
before a concat that changes the quantization of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import (
    HALF_QUOTIENT,
    HELD,
    REFERENCE,
    SCALES,
    Form,
    FormsOfOps,
    Stated,
    make_addition_rq,
    make_rq,
    real_in_float32,
)
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.requantize import apply_steps, scale_sums
from qverify.arithmetic.stated_multipliers import stated_rq
from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph, Node
from qverify.ops import MOVES
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
PRODUCTS = ("conv", "conv_transpose", "fully_connected", "matmul", "mul")
MEANS = ("average_pool", "global_average_pool", "reduce_mean")
REQUANTIZED = (*PRODUCTS, *MEANS, "add")
MOVED = ("lookup", "concat")  # ops that change the quantization of their operands
METHODS_OF_CHANGES = (HELD,)  # of a change of the quantization
WITH_FORMS = (*REQUANTIZED, *MOVED, "softmax", "resize_linear", "quantize")
NUDGE = 2.0**-13  # by which a float16 is enlarged, so that its halves are rounded away from zero
MULTIPLY, DIVIDE = 2, 3  # functions of elementwise_float
MAX_REASONS = 8  # reasons why nodes lack their form that are printed
CHOOSING = ("max_pool", "top_k")  # ops that choose values and compute none


def with_forms(graph: Graph, reals: Mapping[str, Array], arithmetic: FormsOfOps) -> Graph:
    """Returns the graph, lowered in ref-exact, with the forms of an arithmetic.

    reals: the real scales of each rq constant, by its name. A node that cannot have its form computes as the reference;
    meta["without_form"] says why, by its name. Raises UnsupportedError for a form of an op that has no forms."""
    from qverify.compiler.softmax_of_int16 import KEY as SOFTMAX_OF_INT16
    from qverify.compiler.softmax_of_int16 import with_integer_softmax
    from qverify.model_bin.kinds_of_nodes import find_of_node

    for op, form in arithmetic.forms.items():
        if op.partition(", ")[0] not in WITH_FORMS and form not in (None, Form(REFERENCE)):
            raise UnsupportedError(
                f"arithmetic {arithmetic.name}: {op} cannot have the form {str(form)!r}; ops with forms: {', '.join(WITH_FORMS)}"
            )
    graph = with_integer_softmax(graph, arithmetic.forms.get(SOFTMAX_OF_INT16))
    work, without = _Rewriting(graph, dict(graph.tensors), dict(graph.constants), []), dict[str, str]()
    for node in graph.nodes:
        form = find_of_node(arithmetic.forms, node, graph) or Form(REFERENCE)
        if graph.spec(node.outputs[0]).interior:  # its integers are read by a table that has the form
            form = Form(REFERENCE)
        before = len(work.nodes)
        try:
            if form != Form(REFERENCE):
                node = work.rewrite(node, form, reals, arithmetic.multipliers.get(node.outputs[0]))
        except ValueError as error:
            del work.nodes[before:]
            without[node.name] = str(error)
        work.nodes.append(node)
    meta = {**graph.meta, **({"without_form": without} if without else {})}
    return replace(graph, nodes=work.nodes, tensors=work.tensors, constants=work.constants, meta=meta)


@dataclass(slots=True)
class _Rewriting:
    """What becomes of a graph."""

    graph: Graph
    tensors: dict[str, TensorSpec]
    constants: dict[str, npt.NDArray[np.generic]]
    nodes: list[Node]

    def rewrite(self, node: Node, form: Form, reals: Mapping[str, Array], stated: Stated | None = None) -> Node:
        """Returns the node in a form. stated: its multipliers and shifts that the model states. Raises ValueError for a
        form that it cannot have."""
        from qverify.compiler.methods_of_nodes import with_method
        from qverify.model_bin.changes_of_quantization import is_change_of_quantization

        if stated is not None and node.op in REQUANTIZED and (node.inputs[-1] or "") in reals:
            return self._with_stated(node, form, reals[node.inputs[-1] or ""], stated)
        if self._is_real(node):  # of floats, which no form is about
            return node
        if node.op == "quantize":
            return self._quantize_in_float16(node, form)
        if form.method and not (node.op in MOVED and form.method in METHODS_OF_CHANGES):
            constants, node = with_method(node, self.graph, form, reals.get(node.inputs[-1] or ""))
            for name, value in constants.items():
                self._set(name, value)
            return node
        if node.op in ("softmax", "resize_linear"):
            raise ValueError(f"{str(form)!r} is no form of it")
        if node.op == "lookup":
            if is_change_of_quantization(node, self.graph):
                x, y = self.graph.spec(node.inputs[0] or ""), self.graph.spec(node.outputs[0])
                self._set(node.inputs[1] or "", make_table(form, x, y))
                return node
            raise ValueError(f"{str(form)!r} is no form of a function")
        if node.op == "concat":
            return self._change_operands(node, form)
        rq = node.inputs[-1] or ""
        if rq not in reals:  # a float output
            return node
        if node.op == "add":
            self._set(rq, self._make_addition(node, form, reals[rq]))
            return replace(node, words=(0, *node.words[1:]))  # the operands are not exchanged
        if node.op in MEANS and form.means_divided:
            form = Form(form.rounding, zero_inside=form.zero_inside)
        self._set(rq, make_rq(form, self._scale(node, form, reals[rq]), self._is_wide(node)))
        return node

    def _with_stated(self, node: Node, form: Form, real: Array, stated: Stated) -> Node:
        """Returns the node with the multipliers that the model states."""
        if node.op == "average_pool":
            window = node.words[0] * node.words[1]
            if any(node.words[4:8]) and not node.words[8]:
                raise ValueError("the stated multiplier is that of whole windows; some have fewer elements")
            real = np.full(window, np.atleast_1d(real)[0] / window)
        rq = stated_rq(form, real, stated, node.op == "add", self._is_wide(node))
        if node.op == "average_pool":
            rq = np.repeat(rq[:, :1], window, axis=1)
        self._set(node.inputs[-1] or "", rq)
        return replace(node, words=(0, *node.words[1:])) if node.op == "add" else node

    def _is_real(self, node: Node) -> bool:
        return self.graph.spec(node.outputs[0]).numpy_dtype.kind == "f"

    def _make_addition(self, node: Node, form: Form, real: Array) -> Array:
        from qverify.arithmetic.methods import add_in_float32

        if form.scales == SCALES[0]:
            raise ValueError(f"an addition cannot have the form {str(form)!r}")
        if not form.scales:
            return make_addition_rq(form, *map(float, real), wide=self._is_wide(node))
        first, second, y = (self.graph.spec(n or "").scale for n in (*node.inputs[:2], node.outputs[0]))
        if max(map(len, (first, second, y))) > 1 or self._is_wide(node):
            raise ValueError("an operand has several scales or 16 bits")
        return add_in_float32(form, first[0], float(np.copysign(second[0], real[1])), y[0])

    def _scale(self, node: Node, form: Form, real: Array) -> Array:
        names = [n or "" for n in (node.inputs[:2] if node.op in PRODUCTS else ())]
        if form.scales and not names:
            raise ValueError(f"{node.op} cannot have the form {str(form)!r}, because it has one operand")
        operands = [self.graph.spec(n).scale for n in names]
        return real_in_float32(form, np.atleast_1d(real), operands, self.graph.spec(node.outputs[0]).scale[0])

    def _is_wide(self, node: Node) -> bool:
        operands = node.inputs[:2] if node.op in (*PRODUCTS, "add") else node.inputs[:1]
        return is_wide(*(self.graph.spec(n or "").dtype for n in (*operands, node.outputs[0])))

    def _change_operands(self, node: Node, form: Form) -> Node:
        """Returns a concat whose operands have the quantization of its output: those that have another go through a new
        lookup, whose output has no integer reference."""
        from qverify.model_bin.changes_of_quantization import has_other_quantization

        y, inputs = self.graph.spec(node.outputs[0]), list(node.inputs)
        operands = [self.graph.spec(name or "") for name in inputs]
        tables = {k: make_table(form, x, y) for k, x in enumerate(operands) if has_other_quantization(x, y)}
        for k, table in tables.items():
            x = operands[k]
            if x.name in self.graph.constants:
                stored = self.graph.constants[x.name].astype(np.int64) - int(np.iinfo(x.dtype).min)
                inputs[k] = self._add(
                    f"{y.name}/operand{k}", table[stored], replace(y, shape=x.shape, aligned_shape=())
                )
                continue
            changed = self._declare(
                f"{y.name}/operand{k}", replace(y, shape=x.shape, aligned_shape=(), integer_reference=False)
            )
            source = self._add(f"{changed}/table", table, TensorSpec("", str(table.dtype), table.shape))
            self.nodes.append(Node(changed, "lookup", (x.name, source), (changed,), (), node.covers, False))
            inputs[k] = changed
        return replace(node, inputs=tuple(inputs))

    def _quantize_in_float16(self, node: Node, form: Form) -> Node:
        """Returns the quantization of an input of the network whose quotient is rounded to float16 first, then to an integer,
        halves away from zero: x / s, rounded to float16, times (1 + NUDGE) * s is what the node quantizes."""
        x, y = self.graph.spec(node.inputs[0] or ""), self.graph.spec(node.outputs[0])
        if form != Form("half away from zero", method=HALF_QUOTIENT):
            raise ValueError(f"{str(form)!r} is no form of it")
        if x.name not in self.graph.inputs or x.dtype != "float32":
            raise ValueError(f"{x.name} is no float32 input of the network")
        if len(y.scale) != 1 or y.numpy_dtype.itemsize > 1:
            raise ValueError(f"{y.name} is {y.dtype} with {len(y.scale)} scales, wanted 8 bits and one scale")
        one = (1,) * len(x.shape)
        factors = [np.full(one, s, np.float32) for s in (y.scale[0], np.float32(y.scale[0]) * np.float32(1 + NUDGE))]
        step, larger = (
            self._add(f"{y.name}@{n}", v, TensorSpec("", "float32", one))
            for n, v in zip(("step", "larger"), factors, strict=True)
        )
        part = replace(x, interior=True, integer_reference=False)
        quotient, half, real = (self._declare(f"{y.name}@{n}", part) for n in ("quotient", "half", "real"))
        for name, op, inputs, words in (
            (quotient, "elementwise_float", (x.name, step), (DIVIDE, 0, 0)),
            (half, "half_float", (quotient,), ()),
            (real, "elementwise_float", (half, larger), (MULTIPLY, 0, 0)),
        ):
            self.nodes.append(Node(name, op, inputs, (name,), words, node.covers, node.integer_reference))
        return replace(node, inputs=(real, *node.inputs[1:]))

    def _set(self, name: str, value: Array) -> None:
        self.constants[name] = value
        self.tensors[name] = replace(self.tensors[name], dtype=str(value.dtype), shape=value.shape, aligned_shape=())

    def _declare(self, name: str, spec: TensorSpec) -> str:
        while name in self.tensors:
            name += "~"
        self.tensors[name] = replace(spec, name=name)
        return name

    def _add(self, name: str, value: Array, spec: TensorSpec) -> str:
        name = self._declare(name, spec)
        self.constants[name] = value
        return name


def make_table(form: Form, x: TensorSpec, y: TensorSpec) -> Array:
    """Returns the table of a change of the quantization of x to that of y in a form, for each value of x from the lowest.
    Raises ValueError for scales that the form cannot represent."""
    from qverify.arithmetic.methods import hold_in_16_bits

    if len(x.scale) != 1 or len(y.scale) != 1:
        raise ValueError(f"a form cannot change several scales: {x.name!r} or {y.name!r} has them")
    inputs, limits = np.iinfo(x.dtype), np.iinfo(y.dtype)
    acc = np.arange(inputs.min, int(inputs.max) + 1, dtype=np.int64) - x.zero_point[0]
    real = real_in_float32(form, np.array([float(x.scale[0]) / float(y.scale[0])]), [x.scale], y.scale[0])
    if form.method == HELD:
        value = apply_steps(acc, hold_in_16_bits(form, real).astype(np.int64)) + y.zero_point[0]
    else:
        value = scale_sums(form, acc, real, y.zero_point[0]) + y.zero_point[0]
    return np.clip(value, int(limits.min), int(limits.max)).astype(y.dtype)


def find_without_form(graph: Graph) -> dict[str, str]:
    """Returns why nodes of a graph do not have the form that their arithmetic states, by their names."""
    found = graph.meta.get("without_form")
    return found if isinstance(found, dict) else {}


def list_without_form(graph: Graph, arithmetic: FormsOfOps) -> list[str]:
    """Returns the ops of a graph, with the kind of nodes if the arithmetic states one, that compute as the reference
    because an arithmetic has no form for them, or nodes that cannot have it, in order; those that only move or choose values and those on floats are left out."""
    from qverify.model_bin.changes_of_quantization import has_other_quantization
    from qverify.model_bin.kinds_of_nodes import find_key

    found = set[str]()
    for node in graph.nodes:
        y, inputs = graph.spec(node.outputs[0]), [graph.spec(n) for n in node.inputs if n is not None]
        if node.op == "concat":
            computes = any(has_other_quantization(x, y) for x in inputs)
        else:
            computes = y.quantized and node.op not in (*MOVES, *CHOOSING)
        key = find_key(arithmetic.forms, node, graph)
        stated = arithmetic.forms.get(key) is not None and node.name not in find_without_form(graph)
        op, _, kind = key.partition(", ")
        found |= {f"{op} ({kind})" if kind else op} if computes and not stated else set()
    return sorted(found)


def describe_forms(graph: Graph, arithmetic: FormsOfOps) -> str:
    """Returns in one line which ops of a graph have forms of an arithmetic, and which compute as the reference."""
    ops, left = {n.op for n in graph.nodes}, list_without_form(graph, arithmetic)
    known = [f"{op}: {form}" for op, form in arithmetic.forms.items() if form and op.partition(", ")[0] in ops]
    return "; ".join(
        (
            f"arithmetic {arithmetic.name}: {'; '.join(known) or 'no op of it'}"
            + (f". As the reference, without a form: {', '.join(left)}" if left else ""),
            *_list_reasons(graph),
        )
    )


def _list_reasons(graph: Graph) -> list[str]:
    """Returns why nodes do not have their form: the op, the first node, how many there are, and the reason."""
    nodes, without = dict[tuple[str, str], list[str]](), find_without_form(graph)
    for node in graph.nodes:
        if node.name in without:
            nodes.setdefault((node.op, without[node.name]), []).append(node.name)
    lines = [
        f"{op} {names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {why}"
        for (op, why), names in nodes.items()
    ]
    return [*lines[:MAX_REASONS], *([f"{len(lines) - MAX_REASONS} more reasons"] if lines[MAX_REASONS:] else [])]
