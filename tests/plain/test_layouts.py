"""The layouts of tensors are inferred from the nodes that read and write them."""

from __future__ import annotations

import numpy as np
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.layouts import infer_layouts
from qverify.sides.dumps.vendor_axes import arrange_axes
from qverify.tensors.spec import TensorSpec

SHAPES = {"x": (1, 8, 8, 8), "c": (1, 8, 8, 8), "r": (1, 8, 8, 8), "s": (1, 8, 8, 8), "w": (8, 8, 1, 1)}


def infer(*nodes: Node, stated: str = "") -> dict[str, str]:
    names = {
        n: TensorSpec(n, "int8", SHAPES.get(n, (1, 8, 8, 8)), layout="NHWC" if n == stated else "") for n in "xcrsw"
    }
    names |= {n: TensorSpec(n, "int8", (1, 8, 64)) for n in ("flat", "m")}
    graph = Graph(list(nodes), names, {"w": np.ones(SHAPES["w"], np.int8)}, ("x",), ("s",))
    return {name: spec.layout for name, spec in infer_layouts(graph).items()}


CONV = Node("c", "conv", ("x", "w"), ("c",), ())
RELU = Node("r", "lookup", ("c", None), ("r",), ())
ADD = Node("s", "add", ("r", "c"), ("s",), ())


def test_what_follows_a_convolution_and_what_comes_before_it_has_its_layout() -> None:
    assert infer(CONV, RELU, ADD) == dict.fromkeys("xcrs", "NCHW") | {"w": "", "flat": "", "m": ""}
    before = Node("x", "lookup", ("s", None), ("x",), ())
    assert infer(before, CONV)["s"] == "NCHW"


def test_what_no_convolution_is_connected_with_has_none() -> None:
    assert infer(RELU, ADD) == dict.fromkeys((*"xcrsw", "flat", "m"), "")
    moved = Node("r", "transpose", ("c",), ("r",), ())
    assert infer(CONV, moved, ADD)["c"] == "NCHW" and infer(CONV, moved)["r"] == ""
    assert infer(CONV, Node("m", "matmul", ("flat", "c"), ("m",), ()))["m"] == ""


def test_a_stated_layout_is_kept() -> None:
    assert infer(CONV, RELU, ADD, stated="r")["r"] == "NHWC"


def test_axes_of_one_size_are_moved_between_known_layouts() -> None:
    found = arrange_axes(SHAPES["r"], SHAPES["r"], "NHWC", infer(CONV, RELU)["r"])
    assert found.order == (0, 3, 1, 2)
