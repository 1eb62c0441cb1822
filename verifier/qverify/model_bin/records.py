"""Converts a Graph to the bytes of a model.bin and back, independently of the ops (normative:
board_runtime/FORMAT.md)."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from qverify.errors import BadFileError
from qverify.model_bin import container
from qverify.model_bin.check import MAX_COUNT, MAX_COVERS, MAX_LIST, MAX_SCALES, check_graph
from qverify.model_bin.graph import MAX_BYTES, MAX_DIM, MAX_RANK, ROUNDINGS, Graph, Node
from qverify.model_bin.islands import from_meta, to_meta
from qverify.tensors.spec import LAYOUTS, TensorSpec

DTYPES = ("", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "float64", "bool", "float16")
CONSTANT, INPUT, OUTPUT, INTERIOR, NO_INTEGER_REFERENCE = 1, 2, 4, 8, 16  # flags of a tensor
TENSOR, NODE = struct.Struct("<6I I I I I I i Q I I".replace(" ", "")), struct.Struct("<12I")


class _Pools:
    """The pools of strings, words and scales, in which equal runs are stored once. Each method stores its argument and
    returns its offset."""

    def __init__(self) -> None:
        self.strings, self.string_at = bytearray(b"\0"), {"": 0}
        self.words: list[int] = []
        self.word_at: dict[tuple[int, ...], int] = {(): 0}
        self.scales: list[float] = []
        self.scale_at: dict[tuple[float, ...], int] = {(): 0}

    def string(self, text: str) -> int:
        if text not in self.string_at:
            self.string_at[text] = len(self.strings)
            self.strings += text.encode() + b"\0"
        return self.string_at[text]

    def word_run(self, run: tuple[int, ...]) -> int:
        if run not in self.word_at:
            self.word_at[run] = len(self.words)
            self.words += run
        return self.word_at[run]

    def scale_run(self, run: tuple[float, ...]) -> int:
        if run not in self.scale_at:
            self.scale_at[run] = len(self.scales)
            self.scales += run
        return self.scale_at[run]


class _Data:
    """The pieces of the DATA section: the constants, which are not copied, with zeros between them for alignment."""

    def __init__(self) -> None:
        self.pieces: list[container.Piece] = []
        self._size = 0

    def add(self, constant: np.ndarray) -> int:
        """Adds a constant and returns its offset."""
        gap = -self._size % container.ALIGN
        offset = self._size + gap
        self.pieces += [bytes(gap), constant.reshape(-1).view(np.uint8).data]
        self._size = offset + constant.nbytes
        return offset


def encode(graph: Graph) -> bytes:
    """Returns the bytes of a model.bin, which are the same for equal graphs. Raises BadFileError for a graph that
    violates FORMAT.md."""
    return b"".join(encode_pieces(graph))


def encode_pieces(graph: Graph) -> list[container.Piece]:
    """Returns the bytes of a model.bin in pieces, most of which are views of the graph's constants."""
    check_graph(graph)
    pools, data = _Pools(), _Data()
    index = {name: i for i, name in enumerate(graph.tensors)}
    fed = graph.fed()
    ends = frozenset(fed), frozenset(graph.outputs)
    tensors = b"".join(_tensor_bytes(graph, spec, ends, pools, data) for spec in graph.tensors.values())
    nodes = b"".join(_node_bytes(node, index, pools) for node in graph.nodes)
    inputs = tuple(index[n] for n in fed)
    outputs = tuple(index[n] for n in graph.outputs)
    head = struct.pack(
        "<16I",
        len(graph.tensors),
        len(graph.nodes),
        len(inputs),
        pools.word_run(inputs),
        len(outputs),
        pools.word_run(outputs),
        ROUNDINGS.index(graph.rounding),
        pools.string(graph.producer),
        *[0] * 8,
    )
    return container.pack_pieces(
        {
            b"GRPH": [head],
            b"STRS": [bytes(pools.strings)],
            b"TNSR": [tensors],
            b"NODE": [nodes],
            b"WORD": [np.array(pools.words, "<i4").tobytes()],
            b"SCAL": [np.array(pools.scales, "<f4").tobytes()],
            b"DATA": data.pieces,
            b"META": [json.dumps(_meta(graph), sort_keys=True).encode()],
        }
    )


def _meta(graph: Graph) -> dict[str, Any]:
    return {**graph.meta, "islands": to_meta(graph.islands)} if graph.islands else graph.meta


def _tensor_bytes(
    graph: Graph, spec: TensorSpec, ends: tuple[frozenset[str], frozenset[str]], pools: _Pools, data: _Data
) -> bytes:
    flags = INPUT * (spec.name in ends[0]) | OUTPUT * (spec.name in ends[1]) | INTERIOR * spec.interior
    flags |= NO_INTEGER_REFERENCE * (not spec.integer_reference)
    offset = 0
    if spec.name in graph.constants:
        flags |= CONSTANT
        offset = data.add(np.ascontiguousarray(graph.constants[spec.name], spec.numpy_dtype))
    return TENSOR.pack(
        pools.string(spec.name),
        DTYPES.index(spec.dtype),
        flags,
        len(spec.shape),
        pools.word_run(spec.shape),
        pools.word_run(spec.aligned_shape),
        pools.word_run(spec.strides_bytes),
        spec.size_bytes,
        len(spec.scale),
        pools.scale_run(spec.scale),
        pools.word_run(spec.zero_point),
        spec.channel_axis,
        offset,
        LAYOUTS.index(spec.layout),
        0,
    )


def _node_bytes(node: Node, index: dict[str, int], pools: _Pools) -> bytes:
    inputs = tuple(-1 if n is None else index[n] for n in node.inputs)
    outputs = tuple(index[n] for n in node.outputs)
    covers = tuple(pools.string(c) for c in node.covers)
    return NODE.pack(
        pools.string(node.name),
        pools.string(node.op),
        len(inputs),
        pools.word_run(inputs),
        len(outputs),
        pools.word_run(outputs),
        len(node.words),
        pools.word_run(node.words),
        len(covers),
        pools.word_run(covers),
        int(node.integer_reference),
        0,
    )


class _Reader:
    """The sections of one file, with checked access to their elements."""

    def __init__(self, data: container.Piece):
        self.sections = container.unpack(data)
        self.constants_end = 0  # end in DATA of the constants that were read so far
        words, scales = self.sections[b"WORD"], self.sections[b"SCAL"]
        if len(words) % 4 or len(scales) % 4:
            raise BadFileError("model.bin section WORD or SCAL: size is not a multiple of 4")
        self.words, self.scales = np.frombuffer(words, "<i4"), np.frombuffer(scales, "<f4")
        self.strings = bytes(self.sections[b"STRS"])
        if not self.strings or self.strings[0] or self.strings[-1]:
            raise BadFileError("model.bin section STRS: does not start and end with NUL")
        if not (np.isfinite(self.scales) & (self.scales > 0)).all():
            raise BadFileError("model.bin section SCAL: a scale is not finite and positive")

    def string(self, at: int, what: str) -> str:
        if at >= len(self.strings):
            raise BadFileError(f"{what}: string offset {at} is outside STRS ({len(self.strings)} bytes)")
        try:
            return self.strings[at : self.strings.index(b"\0", at)].decode()
        except UnicodeDecodeError:
            raise BadFileError(f"{what}: not UTF-8") from None

    def word_run(self, at: int, count: int, what: str) -> tuple[int, ...]:
        if at + count > len(self.words):
            raise BadFileError(f"{what}: words {at}..{at + count} are outside WORD ({len(self.words)} words)")
        return tuple(self.words[at : at + count].tolist())

    def scale_run(self, at: int, count: int, what: str) -> tuple[float, ...]:
        if at + count > len(self.scales):
            raise BadFileError(f"{what}: scales {at}..{at + count} are outside SCAL ({len(self.scales)})")
        return tuple(self.scales[at : at + count].tolist())


def decode(data: container.Piece) -> Graph:
    """Returns the graph in the bytes of a model.bin, whose constants are views of them. Raises BadFileError naming the rule of FORMAT.md that is violated,
    and the place."""
    reader = _Reader(data)
    head = reader.sections[b"GRPH"]
    if len(head) != 64:
        raise BadFileError(f"model.bin section GRPH: {len(head)} bytes, wanted 64")
    n_tensors, n_nodes, n_in, at_in, n_out, at_out, rounding, producer = struct.unpack_from("<8I", head)
    raw_tensors, raw_nodes = reader.sections[b"TNSR"], reader.sections[b"NODE"]
    if max(n_tensors, n_nodes, n_in, n_out) > MAX_COUNT or any(head[32:]):
        raise BadFileError(f"model.bin section GRPH: {n_tensors} tensors, {n_nodes} nodes, at most {MAX_COUNT} each")
    if len(raw_tensors) != TENSOR.size * n_tensors or len(raw_nodes) != NODE.size * n_nodes:
        raise BadFileError("model.bin section TNSR or NODE: size does not fit the counts in GRPH")
    if rounding >= len(ROUNDINGS):
        raise BadFileError(f"model.bin section GRPH: unknown rounding id {rounding}")
    specs: list[TensorSpec] = []
    constants: dict[str, np.ndarray] = {}
    flags: list[int] = []
    for i in range(n_tensors):
        spec, flag, array = _read_tensor(reader, TENSOR.unpack_from(raw_tensors, TENSOR.size * i), f"tensor {i}")
        specs.append(spec)
        flags.append(flag)
        if array is not None:
            constants[spec.name] = array
    names = [s.name for s in specs]
    if len(set(names)) != len(names):
        raise BadFileError("model.bin section TNSR: two tensors have the same name")
    nodes = [_read_node(reader, NODE.unpack_from(raw_nodes, NODE.size * i), names, f"node {i}") for i in range(n_nodes)]
    inputs = _look_up_names(reader.word_run(at_in, n_in, "graph inputs"), names, "graph inputs")
    outputs = _look_up_names(reader.word_run(at_out, n_out, "graph outputs"), names, "graph outputs")
    if len(set(inputs)) < len(inputs):
        raise BadFileError("model.bin section GRPH: an input is listed twice")
    fed, final = frozenset(inputs), frozenset(outputs)
    for spec, flag in zip(specs, flags, strict=True):
        if bool(flag & INPUT) != (spec.name in fed) or bool(flag & OUTPUT) != (spec.name in final):
            raise BadFileError(f"tensor {spec.name}: its input or output flag disagrees with GRPH")
    try:
        meta = json.loads(bytes(reader.sections[b"META"]))
    except (ValueError, RecursionError):
        raise BadFileError("model.bin section META: not JSON") from None
    if not isinstance(meta, dict):
        raise BadFileError("model.bin section META: not a JSON object")
    islands = from_meta(meta.pop("islands", []))
    computed_on_host = {n for island in islands for n in island.made}
    graph = Graph(
        nodes,
        dict(zip(names, specs, strict=True)),
        constants,
        tuple(n for n in inputs if n not in computed_on_host),
        outputs,
        ROUNDINGS[rounding],
        reader.string(producer, "producer"),
        meta,
        islands,
    )
    if graph.fed() != inputs:
        raise BadFileError("model.bin section GRPH: its inputs are not those of the network and of its host islands")
    check_graph(graph)
    return graph


def _look_up_names(run: tuple[int, ...], names: list[str], what: str) -> tuple[str, ...]:
    if any(not 0 <= i < len(names) for i in run):
        raise BadFileError(f"{what}: a tensor index is outside 0..{len(names) - 1}")
    return tuple(names[i] for i in run)


def _read_tensor(reader: _Reader, record: tuple[int, ...], what: str) -> tuple[TensorSpec, int, np.ndarray | None]:
    """Returns the spec, the flags, and the value of a constant. Raises BadFileError. what: name of the record in
    messages."""
    name_at, dtype, flags, rank, shape_at, aligned_at, strides_at, size, n_scales, scale_at, zero_at = record[:11]
    axis, offset, layout, zero = record[11:]
    name = reader.string(name_at, what)
    what = f"tensor {name!r}"
    if not name or not 0 < dtype < len(DTYPES) or flags > 31 or rank > MAX_RANK or layout >= len(LAYOUTS) or zero:
        raise BadFileError(
            f"{what}: its record is invalid (dtype {dtype}, flags {flags}, rank {rank}, layout {layout})"
        )
    if n_scales > MAX_SCALES or not -1 <= axis < max(rank, 1):
        raise BadFileError(f"{what}: {n_scales} scales on axis {axis} of rank {rank}")
    shape, aligned = reader.word_run(shape_at, rank, what), reader.word_run(aligned_at, rank, what)
    if any(not 1 <= n <= MAX_DIM for n in shape) or any(
        not n <= m <= MAX_DIM for n, m in zip(shape, aligned, strict=True)
    ):
        raise BadFileError(f"{what}: shape {shape} in aligned shape {aligned}")
    spec = TensorSpec(
        name,
        DTYPES[dtype],
        shape,
        aligned,
        reader.scale_run(scale_at, n_scales, what),
        reader.word_run(zero_at, n_scales, what),
        axis,
        LAYOUTS[layout],
        bool(flags & INTERIOR),
        not flags & NO_INTEGER_REFERENCE,
    )
    if spec.size_bytes != size or size > MAX_BYTES or reader.word_run(strides_at, rank, what) != spec.strides_bytes:
        raise BadFileError(f"{what}: {size} bytes or its strides do not follow from {DTYPES[dtype]}{list(aligned)}")
    if not flags & CONSTANT:
        if offset:
            raise BadFileError(f"{what}: has data offset {offset} but is not a constant; wanted 0")
        return spec, flags, None
    data = reader.sections[b"DATA"]
    if offset % container.ALIGN or offset + size > len(data) or aligned != shape:
        raise BadFileError(f"{what}: constant at {offset} of {size} bytes is not within DATA ({len(data)} bytes)")
    if offset < reader.constants_end:
        raise BadFileError(f"{what}: its bytes at {offset} also belong to another constant")
    reader.constants_end = offset + size
    constant = np.frombuffer(data[offset : offset + size], spec.numpy_dtype).reshape(shape)
    if spec.dtype == "bool" and constant.view(np.uint8).max(initial=0) > 1:
        raise BadFileError(f"{what}: a bool constant with a byte of {constant.view(np.uint8).max()}; wanted 0 or 1")
    return spec, flags, constant


def _read_node(reader: _Reader, record: tuple[int, ...], names: list[str], what: str) -> Node:
    name_at, op_at, n_in, in_at, n_out, out_at, n_words, words_at, n_covers, covers_at, flags, zero = record
    name = reader.string(name_at, what)
    what = f"node {name!r}"
    if (
        n_in > MAX_LIST
        or not 1 <= n_out <= MAX_LIST
        or n_words > MAX_LIST
        or n_covers > MAX_COVERS
        or flags > 1
        or zero
    ):
        raise BadFileError(
            f"{what}: its record is invalid ({n_in} inputs, {n_out} outputs, {n_words} words, {n_covers} covers)"
        )
    run = reader.word_run(in_at, n_in, what)
    if any(not -1 <= i < len(names) for i in run):
        raise BadFileError(f"{what}: an input index is outside -1..{len(names) - 1}")
    outputs = _look_up_names(reader.word_run(out_at, n_out, what), names, what)
    covers = tuple(reader.string(at, what) for at in reader.word_run(covers_at, n_covers, what))
    inputs = tuple(None if i < 0 else names[i] for i in run)
    return Node(
        name, reader.string(op_at, what), inputs, outputs, reader.word_run(words_at, n_words, what), covers, bool(flags)
    )
