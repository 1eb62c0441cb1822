"""The inputs of the ONNX that have no elements, such as a cache before the first token: the compiled network lacks them."""

from __future__ import annotations

from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

TYPES = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16"}


def empty_inputs(graph: Graph) -> dict[str, TensorSpec]:
    """Returns their specs by name. What is no such input in the file's metadata is left out."""
    stated = graph.meta.get("empty_inputs", {})
    found = {}
    for name, described in stated.items() if isinstance(stated, dict) else ():
        kind, *dims = described if isinstance(described, list) and described else [0]
        if isinstance(kind, int) and kind in TYPES and all(type(d) is int and d >= 0 for d in dims) and 0 in dims:
            found[str(name)] = TensorSpec(str(name), TYPES[kind], tuple(dims))
    return found


def inputs_of_file(graph: Graph) -> list[str]:
    """Returns the names of the network's inputs and of the empty ones, in the order of the ONNX."""
    names = [*graph.inputs, *empty_inputs(graph)]
    order = graph.meta.get("input_order", [])
    places = {name: at for at, name in enumerate(order)} if isinstance(order, list) else {}
    return sorted(names, key=lambda name: places.get(name, len(places)))
