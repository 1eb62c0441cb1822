"""What a compiled graph must hold before it is written or run (FORMAT.md): each rule broken alone, and the last value that still holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.errors import BadFileError
from qverify.model_bin.check import check_graph
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

Change = Callable[[Graph], None]


def graph() -> Graph:
    """(x, w) -> y -> z, all int8; w a constant with two scales."""
    specs = [
        TensorSpec("x", "int8", (2, 3), (), (0.5,), (0,)),
        TensorSpec("w", "int8", (2, 3), (), (0.5, 1.0), (0, 0), 0),
        TensorSpec("y", "int8", (2, 3), (), (0.5,), (0,)),
        TensorSpec("z", "int8", (2, 3), (), (0.5,), (0,)),
    ]
    nodes = [Node("y", "first", ("x", "w", None), ("y",), (1,), ("N",)), Node("z", "second", ("y",), ("z",))]
    return Graph(nodes, {s.name: s for s in specs}, {"w": np.ones((2, 3), np.int8)}, ("x",), ("z",))


def of_tensor(name: str, /, **fields: Any) -> Change:
    def change(made: Graph) -> None:
        made.tensors[name] = replace(made.tensors[name], **fields)

    return change


def of_first_node(**fields: Any) -> Change:
    def change(made: Graph) -> None:
        made.nodes[0] = replace(made.nodes[0], **fields)

    return change


def with_(**fields: Any) -> Change:
    def change(made: Graph) -> None:
        for field, value in fields.items():
            setattr(made, field, value)

    return change


def shaped(name: str, *shape: int, dtype: str = "int8", aligned: tuple[int, ...] = ()) -> Change:
    return of_tensor(
        name, dtype=dtype, shape=shape, aligned_shape=aligned or shape, scale=(), zero_point=(), channel_axis=-1
    )


def scaled(*zeros: int, scale: float = 1.0, dtype: str = "int8") -> Change:
    return of_tensor("x", dtype=dtype, scale=(scale,) * len(zeros), zero_point=zeros)


def channels(count: int) -> Change:
    """x with as many scales as channels."""
    return of_tensor(
        "x", shape=(count,), aligned_shape=(count,), scale=(1.0,) * count, zero_point=(0,) * count, channel_axis=0
    )


def many_outputs(count: int) -> Change:
    def change(made: Graph) -> None:
        names = ("y", *(f"y{i}" for i in range(count - 1)))
        made.tensors |= {n: TensorSpec(n, "int8", (1,)) for n in names[1:]}
        made.nodes[0] = replace(made.nodes[0], outputs=names)

    return change


def chain(count: int) -> Change:
    """Returns a change to a graph of as many nodes and tensors, and nothing else."""

    def change(made: Graph) -> None:
        names = [f"t{i}" for i in range(count)]
        made.nodes = [Node(n, "any", (), (n,)) for n in names]
        made.tensors = {n: TensorSpec(n, "int8", (1,)) for n in names}
        made.constants, made.inputs, made.outputs = {}, (), ("t0",)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_(rounding="up"), "unknown rounding 'up'; known: ref-exact, "),
        (with_(outputs=("z",) * 65537), "65537 outputs; model.bin may have at most 65536. Cut the model in two"),
        (with_(nodes=[Node("y", "any", (), ("y",))] * 65537), "65537 nodes; model.bin may have at most 65536"),
        (chain(65537), "65537 tensors; model.bin may have at most 65536"),
        (shaped("x", *[1] * 9), r"tensor 'x' has 9 dims \[1, 1.*Reshape it to fewer, or cut the model before it"),
        (shaped("y", *[1] * 9), r"node 'y' \(first\): its output 'y' has 9 dims"),
        (shaped("x", 0, 3), r"is \[0, 3\]; model.bin may have dims of 1 to 1073741824"),
        (shaped("x", 2**30 + 1), r"is \[1073741825\]; model.bin may have dims"),
        (shaped("x", 2, aligned=(2**30 + 1,)), r"is \[1073741825\]; model.bin may have dims"),
        (
            shaped("x", 2, 2**30),
            r"has 2147483648 bytes \(int8\[2, 1073741824\]\); a tensor may have at most 2147483647",
        ),
        (channels(2**20 + 1), "has 1048577 scales; model.bin may have at most 1048576"),
        (of_first_node(inputs=("x",) * 65), r"node 'y' \(first\): 65 inputs; model.bin may have at most 64"),
        (many_outputs(65), "65 outputs; model.bin may have at most 64"),
        (of_first_node(words=(0,) * 65), "65 words; model.bin may have at most 64"),
        (of_first_node(covers=("N",) * 4097), "4097 ONNX nodes it stands for; model.bin may have at most 4096"),
        (of_first_node(words=(0, 2**31)), "a word is 2147483648; model.bin has words of 32 bits"),
        (of_first_node(words=(-(2**31) - 1,)), "a word is -2147483649"),
        (of_first_node(op="a\0b"), r"the name 'a\\x00b' contains a NUL"),
        (of_first_node(covers=("A", "a\0")), r"the name 'a\\x00' contains a NUL"),
        (of_tensor("x", name="other"), "tensor 'x': its name contains a NUL"),
        (of_tensor("x", scale=(0.5, 0.5)), "2 scales and 1 zero points"),
        (of_tensor("w", channel_axis=-1), r"2 scales for axis -1 of \[2, 3\]"),
        (of_tensor("w", channel_axis=1), r"2 scales for axis 1 of \[2, 3\]"),
        *[
            (scaled(0, dtype=d), f"a scale for {d}; only integers have scales")
            for d in ("float32", "float64", "float16", "bool")
        ],
        (scaled(128), "a zero point is outside int8"),
        (scaled(-129), "a zero point is outside int8"),
        (scaled(-1, dtype="uint8"), "a zero point is outside uint8"),
        *[(scaled(0, scale=s), "a scale is not finite and positive") for s in (0.0, -1.0, np.inf, np.nan)],
        (with_(constants={"w": np.ones((3, 2), np.int8)}), r"constant 'w': int8\[3, 2\], its record says int8\[2, 3\]"),
        (with_(constants={"w": np.ones((2, 3), np.int16)}), r"constant 'w': int16\[2, 3\], its record says"),
        (with_(inputs=("x", "w")), "graph input 'w' is also a constant"),
        (of_first_node(outputs=()), "node 'y': not named after its first output"),
        (of_first_node(name="other"), "node 'other': not named after its first output"),
        (of_first_node(inputs=("z",)), "node 'y' reads 'z' before any node computes it"),
        (of_first_node(inputs=("nothing",)), "node 'y' reads 'nothing' before any node computes it"),
        (of_first_node(outputs=("y", "x")), "node 'y': 'x' is computed twice or has no record"),
        (of_first_node(outputs=("y", "y")), "'y' is computed twice"),
        (of_first_node(outputs=("y", "other")), "'other' is computed twice or has no record"),
        (with_(outputs=("other",)), "graph output 'other' is never computed"),
        (with_(inputs=("x",), tensors={**graph().tensors, "a": TensorSpec("a", "int8", (1,))}), "tensor 'a' is never"),
        (of_tensor("y", interior=True), "tensor 'y': flagged interior, which would keep it from being compared"),
    ],
)
def test_a_graph_that_breaks_a_rule(change: Change, message: str) -> None:
    made = graph()
    change(made)
    with pytest.raises(BadFileError, match=message):
        check_graph(made)


@pytest.mark.parametrize(
    "change",
    [
        lambda made: None,
        with_(outputs=("z",) * 65536),
        with_(outputs=("z", "y", "x")),
        chain(65536),
        shaped("x", *[1] * 8),
        shaped("x", 2**30),
        shaped("x", 2, 2**30 - 1),
        shaped("x"),
        channels(2**20),
        of_first_node(inputs=("x",) * 64),
        many_outputs(64),
        of_first_node(words=(0,) * 64),
        of_first_node(covers=("N",) * 4096),
        of_first_node(words=(2**31 - 1, -(2**31))),
        scaled(127),
        scaled(-128),
        scaled(255, dtype="uint8"),
        scaled(0, scale=1e-45),
        of_tensor("w", scale=(1.0, 1.0, 1.0), zero_point=(0, 0, 0), channel_axis=1),
    ],
)
def test_the_last_value_that_holds(change: Change) -> None:
    made = graph()
    change(made)
    check_graph(made)


@pytest.mark.parametrize(("letter", "count", "fits"), [("a", 1023, True), ("a", 1024, False), ("é", 512, False)])
def test_a_name_has_at_most_1023_bytes(letter: str, count: int, fits: bool) -> None:
    name, made = letter * count, graph()
    made.tensors[name] = TensorSpec(name, "int8", (1,))
    made.inputs = ("x", name)
    if fits:
        check_graph(made)
        return
    with pytest.raises(
        BadFileError, match=f"^tensor '{letter * 60}'...: its name is 1024 bytes long, wanted at most 1023"
    ):
        check_graph(made)


def test_no_name_holds_nul() -> None:
    made = graph()
    made.tensors["a\0b"] = TensorSpec("a\0b", "int8", (1,))
    made.inputs = ("x", "a\0b")
    with pytest.raises(BadFileError, match=r"tensor 'a\\x00b': its name contains a NUL"):
        check_graph(made)
