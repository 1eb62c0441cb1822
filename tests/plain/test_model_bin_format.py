"""model.bin as the tables of FORMAT.md say: what is written, and every rule that a file may break behind good checksums."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google_crc32c import value as crc32c
from qverify.errors import BadFileError
from qverify.model_bin import container
from qverify.model_bin.graph import ROUNDINGS, Graph, Node
from qverify.model_bin.records import decode, encode
from qverify.tensors.spec import TensorSpec

DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6}
TENSORS = ["x", "w", "c", "q", "m", "n", "d", "o"]  # their order in the file: what the table below counts by
KINDS = [b"GRPH", b"STRS", b"TNSR", b"NODE", b"WORD", b"SCAL", b"DATA", b"META"]


def graph() -> Graph:
    """x -> q -> (m, n) -> d (inside) -> o: every field of the format has a value that is not its default somewhere."""
    specs = [
        TensorSpec("x", "float32", (1, 3, 5), (1, 3, 8), layout="NCW"),
        TensorSpec("w", "int8", (3, 2), (), (0.5, 0.25, 2.0), (0, -128, 127), 0),
        TensorSpec("c", "int32", (2,)),
        TensorSpec("q", "uint8", (1, 3, 5), (2, 3, 7), (0.5,), (7,), integer_reference=False),
        TensorSpec("m", "uint8", (1, 5, 3, 1), (), (0.125,), (255,), layout="NHWC"),
        TensorSpec("n", "int8", (4, 2), layout="NC"),
        TensorSpec("d", "float32", (1, 5, 3, 1), layout="NCHW", interior=True),
        TensorSpec("o", "int16", (1, 5, 3, 1), (), (0.25,), (-2,)),
    ]
    nodes = [
        Node("q", "quantize", ("x",), ("q",), (), ("Q1",), False),
        Node("m", "any_op", ("q", None, "w", "c"), ("m", "n"), (5, -6, 2**31 - 1), ("A", "B/c")),
        Node("d", "dequantize", ("m",), ("d",)),
        Node("o", "quantize", ("d",), ("o",)),
    ]
    constants: dict[str, Any] = {"w": np.arange(6, dtype=np.int8).reshape(3, 2), "c": np.array([70000, -3], np.int32)}
    meta = {"source_sha256": "ab", "options": {"b": 1, "a": [2]}}
    return Graph(nodes, {s.name: s for s in specs}, constants, ("x",), ("o", "n"), "gemmlowp", "a maker", meta)


def words_of(data: bytes) -> list[int]:
    return [n for (n,) in struct.iter_unpack("<I", data)]


def test_the_container() -> None:
    data = encode(graph())
    assert data[:8] == b"QVMODEL\0" and data[28:64] == bytes(36)
    version, crc, size, count = struct.unpack_from("<IIQI", data, 8)
    assert (version, size, count) == (1, len(data), 8)
    assert crc == crc32c(data[:12] + bytes(4) + data[16 : 64 + 8 * 32])
    end = 64 + 8 * 32
    for i, wanted in enumerate(KINDS):
        kind, crc, offset, size, zero = struct.unpack_from("<4sIQQQ", data, 64 + 32 * i)
        start = -(-end // 64) * 64
        assert (kind, offset, zero, crc) == (wanted, start, 0, crc32c(data[offset : offset + size]))
        assert not any(data[end:offset])
        end = offset + size
    assert end == len(data)


def test_the_records() -> None:
    held, made = {k: bytes(v) for k, v in container.unpack(encode(graph())).items()}, graph()
    pool, scales = np.frombuffer(held[b"WORD"], "<i4").tolist(), np.frombuffer(held[b"SCAL"], "<f4").tolist()

    def text(at: int) -> str:
        return held[b"STRS"][at : held[b"STRS"].index(b"\0", at)].decode()

    head = words_of(held[b"GRPH"])
    assert (head[0], head[1], head[2], head[4], head[6], text(head[7])) == (8, 4, 1, 2, 2, "a maker")
    assert pool[head[3] :][:1] == [0] and pool[head[5] :][:2] == [7, 5] and head[8:] == [0] * 8
    assert held[b"STRS"][0] == held[b"STRS"][-1] == 0
    assert json.loads(held[b"META"]) == made.meta and held[b"META"].index(b'"options"') < held[b"META"].index(b"sou")
    flags = {"x": 2, "w": 1, "c": 1, "q": 16, "m": 0, "n": 4, "d": 8, "o": 4}
    for i, (name, spec) in enumerate(made.tensors.items()):
        r = words_of(held[b"TNSR"])[16 * i : 16 * i + 16]
        runs = [tuple(pool[r[f] :][: r[3]]) for f in (4, 5, 6)]
        assert (text(r[0]), r[1], r[2], r[3]) == (name, DTYPES[spec.dtype], flags[name], len(spec.shape))
        assert runs == [spec.shape, spec.aligned_shape, spec.strides_bytes] and r[7] == spec.size_bytes
        quantization = (tuple(scales[r[9] :][: r[8]]), tuple(pool[r[10] :][: r[8]]))
        assert (*quantization, r[11]) == (spec.scale, spec.zero_point, 0 if name == "w" else 2**32 - 1)
        assert r[12:] == [{"c": 64}.get(name, 0), 0, ["", "NCHW", "NHWC", "NCW", "NC"].index(spec.layout), 0]
    assert held[b"DATA"] == bytes(range(6)) + bytes(58) + struct.pack("<ii", 70000, -3)
    for i, node in enumerate(made.nodes):
        r = words_of(held[b"NODE"])[12 * i : 12 * i + 12]
        lists = [tuple(pool[r[f + 1] :][: r[f]]) for f in (2, 4, 6, 8)]
        inputs = tuple(-1 if n is None else TENSORS.index(n) for n in node.inputs)
        assert (text(r[0]), text(r[1])) == (node.name, node.op)
        assert lists[:3] == [inputs, tuple(map(TENSORS.index, node.outputs)), node.words]
        assert (tuple(map(text, lists[3])), r[10], r[11]) == (node.covers, node.integer_reference, 0)


def test_equal_runs_are_stored_once() -> None:
    held = container.unpack(encode(graph()))
    shapes = [words_of(bytes(held[b"TNSR"]))[16 * TENSORS.index(n) + 4] for n in "mdo"]
    assert len(set(shapes)) == 1 and bytes(held[b"STRS"]).count(b"quantize\0") == 2  # and in "dequantize"
    assert list(held[b"SCAL"].cast("f")).count(0.25) == 2  # alone, and in a run of three
    again = graph()
    again.tensors["n"] = replace(again.tensors["n"], scale=(0.125,), zero_point=(5,))
    assert len(container.unpack(encode(again))[b"SCAL"]) == len(held[b"SCAL"])


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_it_is_read_as_it_was_written(rounding: str) -> None:
    made = replace(graph(), rounding=rounding)
    read = decode(encode(made))
    for array in read.constants.values():
        assert array.dtype in (np.int8, np.int32)
    assert {n: v.tolist() for n, v in read.constants.items()} == {n: v.tolist() for n, v in made.constants.items()}
    assert replace(read, constants={}) == replace(made, constants={})
    assert list(read.tensors) == TENSORS


def changed(kind: bytes, at: int, new: int | bytes, data: bytes | None = None) -> bytes:
    """A file with one word of one section changed (at counts words; bytes: the whole section), every checksum good."""
    sections = {k: bytes(v) for k, v in container.unpack(data or encode(graph())).items()}
    body = sections[kind]
    sections[kind] = new if isinstance(new, bytes) else body[: 4 * at] + struct.pack("<I", new) + body[4 * at + 4 :]
    return container.pack(sections)


def tensor(name: str, field: int) -> int:
    return 16 * TENSORS.index(name) + field


BIG = 2**32 - 1
GRPH = [
    (0, 7, "TNSR or NODE: size does not fit"),
    (0, 65536, "TNSR or NODE: size does not fit"),
    (0, 65537, "65537 tensors, 4 nodes, at most 65536 each"),
    (1, 5, "TNSR or NODE: size does not fit"),
    (1, 65536, "TNSR or NODE: size does not fit"),
    (1, 65537, "8 tensors, 65537 nodes, at most"),
    (2, 65536, "graph inputs: words .* are outside WORD"),
    (2, 65537, "at most 65536 each"),
    (2, 0, "tensor x: its input or output flag disagrees"),
    (3, BIG, "graph inputs: words .* are outside WORD"),
    (4, 65536, "graph outputs: words .* are outside WORD"),
    (4, 65537, "at most 65536 each"),
    (4, 1, "tensor n: its input or output flag disagrees"),
    (5, BIG, "graph outputs: words .* are outside WORD"),
    (6, 12, "unknown rounding id 12"),
    (7, 10**6, "producer: string offset 1000000 is outside STRS"),
    *[(at, 1, "at most 65536 each") for at in range(8, 16)],
]
RECORD = "its record is invalid"
TNSR = [
    ("x", 0, 0, RECORD),
    ("x", 0, 10**6, "tensor 0: string offset"),
    ("x", 1, 0, RECORD),
    ("x", 1, 11, RECORD),
    ("x", 2, 0, "its input or output flag disagrees"),
    ("x", 2, 6, "its input or output flag disagrees"),
    ("x", 2, 31, "is not within DATA"),  # every flag that there is: a constant as well
    ("x", 2, 32, RECORD),
    ("x", 3, 9, RECORD),
    ("x", 3, 2, "do not follow from"),
    ("x", 4, BIG, "words .* are outside WORD"),
    ("x", 5, BIG, "words .* are outside WORD"),
    ("x", 6, BIG, "words .* are outside WORD"),
    ("x", 6, 0, "do not follow from"),
    ("x", 7, 97, "97 bytes or its strides do not follow"),
    ("q", 8, 0, None),
    ("q", 8, 3, "scales 0..3|3 scales"),
    ("q", 8, 1 << 20, "are outside SCAL"),
    ("q", 8, (1 << 20) + 1, "1048577 scales on axis"),
    ("q", 9, 10**6, "are outside SCAL"),
    ("q", 10, 10**6, "words .* are outside WORD"),
    ("q", 11, BIG - 1, "scales on axis -2"),
    ("q", 11, 3, "scales on axis 3 of rank 3"),
    ("q", 11, 2, None),
    ("q", 12, 64, "has data offset .* but is not a constant"),
    ("c", 12, 60, "is not within DATA"),
    ("c", 12, 0, "its bytes at 0 also belong to another constant"),
    ("c", 12, 128, "is not within DATA"),
    ("c", 13, 1, "is not within DATA"),
    ("q", 14, 4, None),
    ("q", 14, 5, RECORD),
    ("q", 15, 1, RECORD),
    ("d", 0, "o", "two tensors have the same name"),
]
NODE = [
    (0, "q", "not named after its first output"),
    (0, 10**6, "node 1: string offset"),
    (1, 10**6, "node 'm': string offset"),
    (2, 65, RECORD),
    (2, 64, "words .* are outside WORD|an input index"),
    (3, BIG, "words .* are outside WORD"),
    (4, 0, RECORD),
    (4, 65, RECORD),
    (4, 64, "words .* are outside WORD|a tensor index"),
    (5, BIG, "words .* are outside WORD"),
    (6, 65, RECORD),
    (6, 64, "words .* are outside WORD"),
    (7, BIG, "words .* are outside WORD"),
    (8, 4097, RECORD),
    (8, 4096, "words .* are outside WORD"),
    (9, BIG, "words .* are outside WORD"),
    (10, 0, None),
    (10, 2, RECORD),
    (11, 1, RECORD),
]


def refused(data: bytes, message: str | None) -> None:
    if message is None:
        decode(data)
        return
    with pytest.raises(BadFileError, match=message):
        decode(data)


@pytest.mark.parametrize(("at", "value", "message"), GRPH)
def test_a_head_that_breaks_a_rule(at: int, value: int, message: str) -> None:
    refused(changed(b"GRPH", at, value), message)


def offset_of(name: int | str) -> int:
    return name if isinstance(name, int) else words_of(sections()[b"TNSR"])[tensor(name, 0)]


def sections() -> dict[bytes, bytes]:
    return {k: bytes(v) for k, v in container.unpack(encode(graph())).items()}


@pytest.mark.parametrize(("name", "field", "value", "message"), TNSR)
def test_a_tensor_that_breaks_a_rule(name: str, field: int, value: int | str, message: str | None) -> None:
    refused(changed(b"TNSR", tensor(name, field), offset_of(value)), message)


@pytest.mark.parametrize(("field", "value", "message"), NODE)
def test_a_node_that_breaks_a_rule(field: int, value: int | str, message: str | None) -> None:
    refused(changed(b"NODE", 12 + field, offset_of(value)), message)


def word_at(kind: bytes, field: int, place: int = 0) -> int:
    """Where in WORD this field of a record points, and `place` beyond."""
    return words_of(sections()[kind])[field] + place


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (word_at(b"GRPH", 5), BIG, r"graph outputs: a tensor index is outside 0..7"),
        (word_at(b"NODE", 12 + 3), 8, r"an input index is outside -1..7"),
        (word_at(b"NODE", 12 + 3), BIG - 1, r"an input index is outside -1..7"),
        (word_at(b"NODE", 12 + 5, 1), BIG, r"a tensor index is outside 0..7"),
        (word_at(b"NODE", 12 + 5, 1), 8, r"a tensor index is outside 0..7"),
        (word_at(b"NODE", 12 + 5, 1), 7, "is computed twice|is never computed"),
        (word_at(b"NODE", 12 + 9), 10**6, "string offset 1000000"),
        (word_at(b"TNSR", tensor("x", 4), 2), 0, "shape .* in aligned shape"),
        (word_at(b"TNSR", tensor("x", 4), 2), 9, "shape .* in aligned shape"),
        (word_at(b"TNSR", tensor("x", 4), 2), 8, "tensor 'q': shape .* in aligned shape"),
        (word_at(b"TNSR", tensor("x", 4), 2), 7, None),  # as long as it is stored
        (word_at(b"TNSR", tensor("x", 5), 2), 4, "shape .* in aligned shape"),
        (word_at(b"TNSR", tensor("x", 5), 2), 2**30 + 1, "shape .* in aligned shape"),
        (word_at(b"TNSR", tensor("x", 5), 2), 2**30, "do not follow from"),
        (word_at(b"TNSR", tensor("x", 6), 2), 8, "do not follow from"),
    ],
)
def test_a_word_that_breaks_a_rule(at: int, value: int, message: str | None) -> None:
    refused(changed(b"WORD", at, value), message)


@pytest.mark.parametrize(("field", "what"), [(3, "inputs"), (5, "outputs")])
@pytest.mark.parametrize("index", [8, BIG])
def test_an_end_of_the_graph_that_is_no_tensor(field: int, what: str, index: int) -> None:
    pool = sections()[b"WORD"]
    longer = changed(b"WORD", 0, pool + struct.pack("<2I", index, index))
    refused(changed(b"GRPH", field, len(pool) // 4, longer), f"graph {what}: a tensor index is outside 0..7")


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (b"GRPH", bytes(63), "GRPH: 63 bytes, wanted 64"),
        (b"WORD", bytes(7), "not a multiple of 4"),
        (b"SCAL", bytes(7), "not a multiple of 4"),
        (b"STRS", b"", "start and end with NUL"),
        (b"STRS", b"a\0", "start and end with NUL"),
        (b"STRS", b"\0a", "start and end with NUL"),
        (b"STRS", sections()[b"STRS"].replace(b"a maker", b"a \xffaker"), "producer: not UTF-8"),
        (b"SCAL", sections()[b"SCAL"] + struct.pack("<f", 0.0), "not finite and positive"),
        (b"SCAL", sections()[b"SCAL"] + struct.pack("<f", np.inf), "not finite and positive"),
        (b"SCAL", struct.pack("<f", np.nan) + sections()[b"SCAL"][4:], "not finite and positive"),
        (b"META", b"{", "META: not JSON"),
        (b"META", b"[" * 10**5, "META: not JSON"),
        (b"META", b"[]", "META: not a JSON object"),
    ],
)
def test_a_section_that_breaks_a_rule(kind: bytes, body: bytes, message: str) -> None:
    refused(changed(kind, 0, body), message)


def test_pools_may_be_used_to_their_end() -> None:
    """The last word and the last scale of a pool belong to it; the one behind them does not."""
    held = sections()
    words, scales = len(held[b"WORD"]) // 4, len(held[b"SCAL"]) // 4
    assert decode(changed(b"TNSR", tensor("q", 9), scales - 1)).spec("q").scale == (0.25,)  # of o, the last
    refused(changed(b"TNSR", tensor("q", 9), scales), f"scales {scales}..{scales + 1} are outside SCAL")
    last = len(held[b"STRS"]) - 1
    assert decode(changed(b"GRPH", 7, last)).producer == ""
    refused(changed(b"GRPH", 7, last + 1), f"string offset {last + 1} is outside STRS")
    longer = changed(b"WORD", 0, held[b"WORD"] + struct.pack("<i", 9))
    assert decode(changed(b"TNSR", tensor("q", 10), words, longer)).spec("q").zero_point == (9,)
    refused(changed(b"TNSR", tensor("q", 10), words + 1, longer), "are outside WORD")


def test_constants_fill_data_to_its_end() -> None:
    body = sections()[b"DATA"]
    refused(changed(b"DATA", 0, body[:-1]), "constant at 64 of 8 bytes is not within DATA")
    assert decode(changed(b"DATA", 0, body + b"\0")).constants["c"].tolist() == [70000, -3]


def test_a_constant_with_padding_is_refused() -> None:
    made = graph()
    made.tensors["w"] = replace(made.tensors["w"], aligned_shape=(3, 3))
    with pytest.raises(BadFileError, match="tensor 'w': constant at 0 of 9 bytes"):
        decode(encode(made))


@pytest.mark.parametrize("byte", [2, 255])
def test_a_bool_constant_is_0_or_1(byte: int) -> None:
    """model.bin may be anybody's: a byte of 2 would be True to one side, and 2 to another."""
    tensors = {
        "x": TensorSpec("x", "float32", (2,)),
        "c": TensorSpec("c", "bool", (2,)),
        "y": TensorSpec("y", "float32", (2,)),
    }
    nodes = [Node("y", "where", ("c", "x", "x"), ("y",))]
    made = encode(Graph(nodes, tensors, {"c": np.array([False, True])}, ("x",), ("y",)))
    assert decode(made).constants["c"].tolist() == [False, True]
    sections_ = {k: bytes(v) for k, v in container.unpack(made).items()}
    sections_[b"DATA"] = bytes([0, byte]) + sections_[b"DATA"][2:]
    with pytest.raises(BadFileError, match=rf"tensor 'c': a bool constant with a byte of {byte}; wanted 0 or 1"):
        decode(container.pack(sections_))


def test_an_input_listed_twice_is_refused() -> None:
    made = graph()
    with pytest.raises(BadFileError, match="an input is listed twice"):
        decode(encode(replace(made, inputs=("x", "x"))))
    twice = decode(encode(replace(made, outputs=("o", "o", "n"))))  # an output may be
    assert twice.outputs == ("o", "o", "n")
