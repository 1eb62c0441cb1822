"""Shapes that only a run shows: on zeros or, where onnxruntime rejects these, on other inputs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from qverify.errors import BadFileError

from tests.ops.qdq import Qdq
from tests.plain.island_models import SHAPE, compiled, conv


def found_places(m: Qdq) -> None:
    """Reads the first place of a positive element, of which there is none with zeros."""
    x = conv(m, m.input(SHAPE), 3, 3)
    m.output(x)
    places = m.op("NonZero", [m.op("Greater", [m.inputs[0].name, m.constant("half", np.float32(0.5))])])
    first = m.op("Gather", [places, m.constant("first", np.array(0))], axis=1)
    m.output(m.op("Cast", [first], to=TensorProto.FLOAT))


def test_a_part_that_does_not_run_on_zeros_is_shaped_by_other_inputs() -> None:
    graph = compiled(found_places)
    assert "NonZero" in {node.op for island in graph.islands for node in island.nodes}


def counted_places(m: Qdq) -> None:
    """Outputs places whose number values decide, and that number; and reshapes a quantized constant."""
    x = conv(m, m.input(SHAPE), 3, 3)
    places = m.op("NonZero", [m.op("Greater", [x, m.constant("half", np.float32(0.5))])])
    count = m.op("Gather", [m.op("Shape", [places]), m.constant("second", np.array(1))])
    m.output(m.op("Cast", [places], to=TensorProto.FLOAT))
    m.output(m.op("Cast", [count], to=TensorProto.FLOAT))
    weight = m.op("Reshape", [m.weight((3, 27)), m.constant("weight_dims", np.array([3, 3, 3, 3]))])
    m.output(m.quantize(m.op("Conv", [x, weight], pads=[1, 1, 1, 1])))
    m.outputs.append(places)


def test_the_shape_of_an_output_that_values_decide_is_no_constant() -> None:
    graph = compiled(counted_places)
    assert {"NonZero", "Shape"} <= {node.op for island in graph.islands for node in island.nodes}


def window_larger_than_its_input(m: Qdq) -> None:
    x = m.input((1, 3, 6, 5))
    m.output(m.quantize(m.op("Conv", [x, m.weight((4, 3, 3, 3))], dilations=[1, 3]), like=x))


def test_a_window_larger_than_its_input_is_refused_by_name() -> None:
    with pytest.raises(
        BadFileError, match=r"'conv\d' has dims \[1, 4, 4, -1\], so no elements: the window of Conv is larger"
    ):
        compiled(window_larger_than_its_input)
