"""Renders the contents of a model file for a terminal."""

from __future__ import annotations

from collections import Counter
from typing import Any

from qverify.model_bin.facts import ModelFacts, TensorFacts, real_range
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.text_view import TextView

MAX_SCALES = 8  # shown scales; of more, only the smallest and the largest are shown
TEXT = "text of tpu-mlir"  # a model that is no file of qverify's
MAX_NAMES = 6  # of a list


def render_model(facts: ModelFacts, view: TextView) -> str:
    """Returns facts about the file, then a table with one row for each node of the compiled model."""
    table = [] if facts.graph is None else ["", _table(facts.graph, view)]
    return "\n".join([*map(view.wrap, _head(visible(facts))), *table])


def render_tensor(facts: TensorFacts, view: TextView) -> str:
    """Returns one line for each fact about the tensor."""
    facts = visible(facts)
    spec = facts.spec
    lines = [("tensor", spec.name), ("dtype", spec.dtype), ("shape", _shape(spec.shape))]
    if spec.aligned_shape != spec.shape:
        lines.append(("stored as", _shape(spec.aligned_shape)))
    lines += [("bytes", str(spec.size_bytes)), ("made by", facts.made_by), ("read by", _names(facts.read_by))]
    if spec.quantized:
        axis = f", along axis {spec.channel_axis}" if len(spec.scale) > 1 else ""
        lines += [("scale", _many(spec.scale) + axis), ("zero point", _many(spec.zero_point))]
        lines.append(("real range", _range(facts.low, facts.high)))
    if facts.values:
        lines.append(("values", ", ".join(f"{name} {value:g}" for name, value in facts.values.items())))
    if spec.interior:
        lines.append(("compared", "no: it lies inside a float region, or the compiler made it"))
    width = max(len(name) for name, _ in lines)
    return "\n".join(view.wrap(f"{name:{width}s}  {text}") for name, text in lines)


def _head(facts: ModelFacts) -> list[str]:
    lines = [f"{facts.path}: {facts.kind}, {facts.size_bytes} bytes, sha256 {facts.sha256[:16]}"]
    for kind, values in (("input", facts.inputs), ("output", facts.outputs)):
        lines += [f"{kind}: {name}, {dtype}, {dims}" for name, dtype, dims in values]
    if facts.operators:
        opsets = ", ".join(f"{domain} {version}" for domain, version in facts.opsets.items())
        kinds = ", ".join(f"{name} {n}" for name, n in facts.operators.items())
        lines += [f"opset: {opsets}", f"{count(sum(facts.operators.values()), 'ONNX node')}: {kinds}"]
    if facts.graph is None:
        return [*lines, facts.why]
    return [*lines, *_describe_graph(facts.graph, facts.kind)]


def _describe_graph(graph: Graph, kind: str) -> list[str]:
    kinds = ", ".join(f"{op} {n}" for op, n in Counter(n.op for n in graph.nodes).most_common())
    size = sum(c.nbytes for c in graph.constants.values())
    if kind.startswith(TEXT):
        return [f"holds {count(len(graph.nodes), 'op')}: {kinds}"]
    does = "holds" if kind == "model.bin" else "compiles to"
    lines = [
        f"{does} {count(len(graph.nodes), 'node')}: {kinds}; {count(len(graph.constants), 'constant')}, {size} bytes"
    ]
    if kind == "model.bin":
        lines.append(f"compiled from {graph.meta.get('source_name', 'unknown')}, rounding {graph.rounding}")
        lines.append(_describe_check(graph.meta.get("check")))
    lines += [f"computed on the host, not verified: {n.why}" for island in graph.islands for n in island.nodes]
    return visible(lines)


def _describe_check(check: Any) -> str:
    if not isinstance(check, dict) or not check.get("units"):
        return "never checked against its ONNX (--no-check)"
    worst = check.get("worst_lsb")
    return f"checked against its ONNX when compiled: {count(int(check['units']), 'node')}, worst {worst} LSB"


def _table(graph: Graph, view: TextView) -> str:
    nodes = [visible(n) for n in graph.nodes]
    specs = [visible(graph.tensors[n.outputs[0]]) for n in graph.nodes]
    table = render_table(
        [
            Column("output", [n.name for n in nodes], name=True),
            Column("op", [n.op for n in nodes]),
            Column("dtype", [s.dtype for s in specs], rank=1),
            Column("shape", [_shape(s.shape) for s in specs]),
            Column("scale", [_few(s.scale) for s in specs], rank=2),
            Column("zero", [_few(s.zero_point) for s in specs], rank=3),
            Column("real range", [_range(*real_range(s)) for s in specs]),
            Column("covers", [_names(n.covers) for n in nodes], rank=4),
        ],
        view,
    )
    if all(n.name in table for n in nodes):
        return table
    return (
        f"{table}\n{view.wrap('names are shortened; a wider terminal (COLUMNS=200) has them whole, and more columns')}"
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _few(values: tuple[float, ...]) -> str:
    return "" if not values else f"{values[0]:.6g}" if len(values) == 1 else f"{min(values):.3g}..{max(values):.3g}"


def _many(values: tuple[float, ...]) -> str:
    if len(values) <= MAX_SCALES:
        return ", ".join(f"{v:.9g}" for v in values)
    return f"{len(values)} values, {min(values):.9g} to {max(values):.9g}"


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.5g}..{high:.5g}"


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more if names else "nothing"
