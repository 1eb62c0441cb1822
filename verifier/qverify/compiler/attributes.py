"""Declares the attributes that lowerings read. Any other attribute of a node is refused by name, never ignored."""

from __future__ import annotations

from typing import Any

from qverify.compiler.blockers import Blockers
from qverify.compiler.lowerings import lowerings
from qverify.compiler.next_step import next_step
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, attributes

ANY: frozenset[Any] | None = None  # every value is supported


def only(*values: Any) -> frozenset[Any]:
    """Returns the set of the only values that are supported."""
    return frozenset(values)


WINDOW: dict[str, frozenset[Any] | None] = {
    "auto_pad": only(b"NOTSET", b"VALID", b"SAME_UPPER", b"SAME_LOWER"),
    "dilations": ANY,
    "kernel_shape": ANY,
    "pads": ANY,
    "strides": ANY,
}
QUANTIZE: dict[str, frozenset[Any] | None] = {
    "axis": ANY,
    "block_size": ANY,  # GraphView.parameters refuses blocks
    "output_dtype": ANY,
    "saturate": ANY,
    "precision": ANY,
}
# compiled as constants, where what they read is a constant or a known shape
BECOME_CONSTANTS = frozenset(
    ["BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "MelWeightMatrix", "Range", "Shape", "Size"]
)
CHANNELS: dict[str, frozenset[Any] | None] = {"channels_last": only(0)}


def check_attributes(view: GraphView, blockers: Blockers) -> None:
    """Refuses nodes with an attribute that no lowering reads, with an unsupported value, or with a second output that
    is used although only the first can be compiled."""
    needed = _needed(view)
    for node in view.nodes:
        if node.name in blockers.nodes:
            continue
        with blockers.at(node):
            _check_node(view, node, node.name in needed)


def _check_node(view: GraphView, node: Any, needed: bool) -> None:
    """Raises UnsupportedError for an unsupported attribute or output. needed: whether a graph output depends on the
    node."""
    pages = lowerings()
    read = pages.read.get(node.op_type)
    if read is None:
        if needed and node.op_type in BECOME_CONSTANTS:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): what it reads, or the shape of that, depends on the values of the inputs; "
                f"only constants can be compiled. {next_step(view, node)}"
            )
        if needed and node.attribute:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): this operator is not supported. {next_step(view, node)}"
            )
        return
    for name, value in attributes(node).items():
        if name not in read or ((allowed := read[name]) is not None and value not in allowed):
            shown = value.decode(errors="replace") if isinstance(value, bytes) else value
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): {name}={shown} is not supported; export without it, or cut the model before it"
            )
    if len(node.output) > 1 and node.op_type not in pages.several_outputs:
        _keep_first_output(view, node)


def _needed(view: GraphView) -> set[str]:
    """Returns the names of the nodes that a graph output depends on."""
    nodes, todo = set[str](), list(view.outputs)
    while todo:
        node = view.producer.get(todo.pop())
        if node is not None and node.name not in nodes:
            nodes.add(node.name)
            todo += node.input
    return nodes


def _keep_first_output(view: GraphView, node: Any) -> None:
    """Removes the outputs after the first from the node. Raises UnsupportedError if one of them is used."""
    for name in node.output[1:]:
        if name and (view.consumers[name] or name in view.ends):
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): its further output {name!r} is used; only the first can be compiled. Remove what reads it, or cut the model before it"
            )
    del node.output[1:]
