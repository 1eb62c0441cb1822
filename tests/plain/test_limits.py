"""How far a forced unit may be off, by its multipliers and by the runtime that ran it."""

from __future__ import annotations

import numpy as np
from qverify.compare.limits import BITS, another_runtime, limit_for
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec


def test_the_limit_of_an_add_follows_its_multipliers():
    """Two 8-bit multipliers and a shift of 7: 1.99 LSB apart at most, so 2 after rounding; 15 bits: 1."""

    specs = {n: TensorSpec(n, "uint8", (4,), scale=(0.1,), zero_point=(0,)) for n in ("a", "b", "y")}
    for rounding, words, lsb in (("mul8", [140, 90, 7], 2), ("mul15", [18000, 9000, 14], 1), ("mul8", [140, 90, 9], 1)):
        rq = np.array(words, np.int32)
        node = Node("y", "add", ("a", "b", "y/rq"), ("y",), (0, 0, 255))
        held = {**specs, "y/rq": TensorSpec("y/rq", "int32", (3,))}
        graph = Graph([node], held, {"y/rq": rq}, ("a", "b"), ("y",), rounding)
        assert limit_for(units(graph)[0], "y", graph).lsb == lsb


def test_a_board_of_another_runtime_rounds_in_its_own_way():
    """At least 1 LSB, in an add what multipliers of 8 bits may be off by; what is not quantized must still be equal."""

    specs = {
        n: TensorSpec(n, "int8", (1, 4), scale=(s,), zero_point=(0,)) for n, s in (("a", 0.5), ("b", 0.3), ("y", 0.5))
    }
    graph = Graph([Node("n", "add", ("a", "b"), ("y",), ())], specs, {}, ("a", "b"), ("y",), "ref-exact")
    (unit,) = units(graph)
    assert another_runtime(BITS, unit, "y", graph).lsb == 2
    graph.tensors["a"] = TensorSpec("a", "int8", (1, 4), scale=(4.0,), zero_point=(0,))  # 8 LSB: 4 of 8 bits are left
    assert another_runtime(BITS, unit, "y", graph).lsb == 16
    graph.nodes = [Node("n", "conv", ("a", "b"), ("y",), ())]
    assert another_runtime(BITS, units(graph)[0], "y", graph).lsb == 1
    graph.tensors["y"] = TensorSpec("y", "int64", (1, 4))
    assert another_runtime(BITS, units(graph)[0], "y", graph) == BITS
