"""A final output that dequantizes a quantized tensor, and that tensor: of a dump that has one of both, the other one follows."""

from __future__ import annotations

from collections import Counter
from functools import partial

from qverify.model_bin.graph import Graph
from qverify.ops.dequantize import simulate
from qverify.printable import printable
from qverify.tensors.codes import is_narrow, store_as
from qverify.tensors.recording import Array, Recording, Tensors


def find_dequantized_outputs(graph: Graph) -> dict[str, str]:
    """Returns the quantized tensors by the names of the final outputs that are their real values."""
    return {
        node.outputs[0]: node.inputs[0]
        for node in graph.nodes
        if node.op == "dequantize" and node.outputs[0] in graph.outputs and node.inputs[0] is not None
    }


def find_quantized_ends(graph: Graph) -> dict[str, str]:
    """Returns the quantized tensors by the names of the network's float inputs that only they are made of, and of the final
    outputs that are their real values: what integers under such a name are."""
    made = [n for n in graph.nodes if n.op == "quantize" and n.inputs[0] in graph.inputs]
    times = Counter(n.inputs[0] for n in made)
    inputs = {str(n.inputs[0]): n.outputs[0] for n in made if times[n.inputs[0]] == 1}
    return {**inputs, **find_dequantized_outputs(graph)}


def complete_outputs(side: Recording, graph: Graph, integers: bool) -> list[str]:
    """Adds to a dump the final outputs that it lacks and of which it has the integers, and, if `integers`, the integers of the
    final outputs that it has in float32 or float64, if these are whole steps and the dump has more than outputs. Returns the
    former."""
    integers = integers and any(n in side.tensors for n in graph.observable() if n not in graph.outputs)
    loaders = {name: partial(side.tensors.__getitem__, name) for name in side.tensors}
    added, followed = dict[str, Array](), list[str]()
    for real, stored in find_dequantized_outputs(graph).items():
        given = stored if _is_given(side, stored) else real
        lacking = real if given == stored else stored
        if (
            (lacking == stored and not integers)
            or lacking in side.specs
            or lacking in side.missing
            or not _is_given(side, given)
        ):
            continue
        codes = _read_codes(side, given, stored, graph)
        if codes is None:
            continue
        added[lacking] = codes if lacking == stored else _dequantize(codes, real, graph)
        side.specs[lacking] = graph.spec(lacking)
        followed += [real] if lacking == real else []
    if added:
        side.tensors = Tensors({**loaders, **{name: partial(_return, value) for name, value in added.items()}})
    return followed


def describe_followed(names: list[str]) -> list[str]:
    """Returns the text for the verdict line on final outputs that follow from a dump's integers, or []."""
    if not names:
        return []
    more = f" and {len(names) - 2} more outputs" if len(names) > 3 else ""
    shown = ", ".join(map(printable, names[: 2 if more else 3]))
    return [f"of {shown}{more} the dump gives the integers, from which the real values follow"]


def _is_given(side: Recording, name: str) -> bool:
    return name in side.tensors and name not in side.missing


def _read_codes(side: Recording, given: str, stored: str, graph: Graph) -> Array | None:
    """Returns the integers of the quantized tensor, as the graph stores them, or None if nothing shows them."""
    value, own, spec = side.tensors[given], side.specs.get(given), graph.spec(stored)
    if value.shape != spec.shape or is_narrow(value.dtype):
        return None
    codes = store_as(value, own, spec)
    return None if isinstance(codes, str) or codes.dtype != spec.numpy_dtype else codes


def _dequantize(codes: Array, real: str, graph: Graph) -> Array:
    return simulate(graph.producers()[real], [codes], graph, None)[0].reshape(graph.spec(real).shape)


def _return(value: Array) -> Array:
    return value
