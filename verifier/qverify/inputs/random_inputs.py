"""Makes random PreparedInputs from a seed."""

from __future__ import annotations

import numpy as np

from qverify.errors import BadFileError
from qverify.inputs.buffers import random_bytes
from qverify.inputs.described_inputs import described_inputs
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.integer_functions import FUNCTIONS
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec

INDEX_MOVEMENTS = ("cast", "reshape", "slice", "split", "tile", "transpose")  # ops whose output has the same indices
PICKING = ("gather", "gather_elements", "gather_nd")  # ops whose output has some of the first input's indices
FIRST_STATES = "first_states"  # in a graph's meta: the bytes of the variables that are inputs, as hex; "" for zeros
STATE = "the first state"  # the source of such an input
LARGEST_FLOAT16 = float(np.finfo(np.float16).max)
INDEXED = (*PICKING, "scatter_elements", "scatter_nd")  # ops that use the second input as indices


def quantization_of(graph: Graph, name: str) -> TensorSpec | None:
    """Returns the integer tensor to which a quantize node quantizes this float graph input, directly or after reshapes
    and casts from float16, or None if there is no such node or it does not quantize per tensor."""
    for node in graph.nodes:  # they are in running order, so one pass is enough to follow reshapes
        if name in node.inputs:
            quantized = graph.spec(node.outputs[0])
            if node.op in ("quantize", "QUANTIZE"):
                return quantized if len(quantized.scale) == 1 and quantized.numpy_dtype.kind in "iu" else None
            if node.op in ("reshape", "half_float"):
                name = node.outputs[0]
    return None


def index_range(graph: Graph, name: str) -> int:
    """Returns the number of indices, from 0 on, that are valid for every gather and scatter that uses this graph input
    as indices, directly or after movements and casts. Returns 2 if there is no such node, because the input may be a
    mask or a flag."""
    names, smallest = {name}, None
    for node in graph.nodes:
        source = node.inputs[0] if node.inputs else None
        if node.op in INDEXED and node.inputs[1] in names and source is not None:
            size = min(_indexed_dims(graph, node, source), default=None)
            smallest = size if smallest is None else smallest if size is None else min(smallest, size)
        if node.op in (*INDEX_MOVEMENTS, *PICKING) and source in names:
            names |= set(node.outputs)
    return 2 if smallest is None else smallest


def is_divisor(graph: Graph, name: str) -> bool:
    """Returns whether integers are divided by this graph input, directly or after movements, casts and choices, so that
    a 0 in it would end the run."""
    names = {name}
    for node in graph.nodes:
        divided = node.op == "mod" or (node.op == "elementwise_integer" and node.words[0] == FUNCTIONS["div"].number)
        if divided and node.inputs[1] in names:
            return True
        if node.op in (*INDEX_MOVEMENTS, *PICKING) and node.inputs[0] in names:
            names |= set(node.outputs)
        if node.op == "where" and names.intersection(filter(None, node.inputs[1:])):
            names |= set(node.outputs)
    return False


def _indexed_dims(graph: Graph, node: Node, source: str) -> tuple[int, ...]:
    """Returns the sizes of the dims of `source` that this node indexes."""
    shape = graph.spec(source).shape
    if node.op in ("gather_nd", "scatter_nd"):
        first = node.words[0] if node.op == "gather_nd" else 0
        return shape[first : first + graph.spec(str(node.inputs[1])).shape[-1]]
    return (shape[node.words[0]],)


def random_values(graph: Graph, spec: TensorSpec, generator: np.random.Generator) -> np.ndarray:
    """Returns random values for an input, uniformly distributed: floats over the range to which the input is quantized,
    or over -1..1 if it is not; quantized integers over the range of their type, other integers over index_range(); of an
    operand that states a shape, that of the file."""
    stated = graph.meta.get("shape_inputs", {}).get(spec.name, ())
    if stated and spec.shape == (len(stated),):
        return np.asarray(stated, spec.dtype)
    if spec.dtype in ("float32", "float16"):
        return _random_floats(graph, spec, generator)
    if spec.dtype == "bool":
        return generator.integers(0, 2, spec.shape).astype(bool)
    if spec.dtype == "float64":
        return generator.uniform(-1, 1, spec.shape)
    limits = np.iinfo(spec.dtype)
    low = 1 if is_divisor(graph, spec.name) else 0
    high = limits.max if spec.quantized else min(int(limits.max), low + index_range(graph, spec.name) - 1)
    return generator.integers(
        limits.min if spec.quantized else low, high, spec.shape, dtype=np.int64, endpoint=True
    ).astype(spec.dtype)


def _random_floats(graph: Graph, spec: TensorSpec, generator: np.random.Generator) -> np.ndarray:
    """Returns random values for a float input. Those beyond the range of float16 become its largest value."""
    quantized = quantization_of(graph, spec.name)
    if quantized is None:
        return np.asarray(generator.uniform(-1, 1, spec.shape), spec.dtype)
    limits = np.iinfo(quantized.dtype)
    whole = np.asarray(generator.integers(limits.min, limits.max, spec.shape, dtype=np.int64, endpoint=True))
    real = (whole - quantized.zero_point[0]).astype(np.float32) * np.float32(quantized.scale[0])
    return np.asarray(real if spec.dtype == "float32" else real.clip(-LARGEST_FLOAT16, LARGEST_FLOAT16), spec.dtype)


def first_state(graph: Graph, name: str) -> bytes | None:
    """Returns the aligned bytes of an input that is a variable of the network, as a first step reads it; None for another input.
    Raises BadFileError if what the graph states does not fit the input."""
    stated = graph.meta.get(FIRST_STATES, {})
    if not isinstance(stated, dict) or name not in stated:
        return None
    spec, text = graph.spec(name), str(stated[name])
    try:
        data = bytes.fromhex(text) if text else bytes(spec.valid_bytes)
    except ValueError:
        data = b""
    if len(data) != spec.valid_bytes:
        raise BadFileError(f"model.bin: its first state of {name!r} is {len(data)} bytes, wanted {spec.valid_bytes}")
    return spec.aligned_bytes(np.frombuffer(data, spec.numpy_dtype).reshape(spec.shape))


def random_inputs(graph: Graph, seed: int = 0) -> PreparedInputs:
    """Returns random inputs, but the first states of variables. One PCG64 stream is used for all inputs, in the order of the graph."""
    generator = np.random.Generator(np.random.PCG64(seed))
    inputs, described = [], described_inputs(graph)
    frames = {f.roi: f.description.frame for f in described.values() if f.roi is not None and f.description is not None}
    for name in graph.inputs:
        spec = graph.spec(name)
        if (state := first_state(graph, name)) is not None:
            inputs.append(PreparedInput(spec, state, STATE))
            continue
        wanted = described[name].description if name in described else None
        if name in frames:
            data = _make_random_roi(frames[name], generator)
        elif wanted is not None and not spec.quantized:
            data = random_bytes(wanted, generator)
        else:
            data = spec.aligned_bytes(random_values(graph, spec, generator))
        inputs.append(PreparedInput(spec, data, "random", seed))
    return PreparedInputs(tuple(inputs))


def _make_random_roi(frame: tuple[int, int], generator: np.random.Generator) -> bytes:
    """Returns a random ROI within the frame, as the bytes of int32 left, top, width, height."""
    size = [int(generator.integers(1, side, endpoint=True)) for side in frame]
    start = [int(generator.integers(0, side - n, endpoint=True)) for side, n in zip(frame, size, strict=True)]
    return np.array([*start, *size], "<i4").tobytes()
