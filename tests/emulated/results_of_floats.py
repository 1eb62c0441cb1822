"""Computes what must have the same bits on every processor, as lines of a name and a checksum.

`python -m tests.emulated.results_of_floats "KIND ARGUMENT" ...` prints them; test_arm_results.py compares those of a Python for
ARM with those of the Python that runs the tests."""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import qverify
from onnx import TensorProto, helper, numpy_helper
from qverify.arithmetic import functions64
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.records import encode
from qverify.sides.simulator import Simulator

Lines = Iterator[tuple[str, str]]
ONE_ARGUMENT = (
    *("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh", "sinh", "cosh", "asinh", "acosh", "atanh"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
)
NUMBERS = (0, 1, 2, 3, 31, 32, 10**6)


def checksum(values: np.ndarray) -> str:
    """Returns that of the elements' bits. All NaN count as one: their bits are no result."""
    return f"{zlib.crc32(np.where(np.isnan(values), np.nan, values).tobytes()):08x}"


def functions(_: str) -> Lines:
    """Yields a line for each of the verifier's own functions of float64."""
    random = np.random.Generator(np.random.PCG64(11))
    x = np.concatenate(
        [
            random.integers(0, 1 << 64, 20_000, np.uint64, endpoint=False).view(np.float64),  # every exponent
            random.uniform(-30, 30, 20_000),
            random.uniform(-1, 1, 20_000),
            np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, np.finfo(np.float64).max]),
        ]
    )
    with np.errstate(all="ignore"):
        for name in ONE_ARGUMENT:
            yield name, checksum(getattr(functions64, name)(x))
        for exponent in (3.0, -2.0, 0.5, -0.75, 2.7, 17.0):
            yield f"power {exponent}", checksum(functions64.power(x, exponent))
    for name in ("log2_of", "log10_of"):
        yield name, checksum(np.array([getattr(functions64, name)(n) for n in (1, 3, 7.5, 1e-300, 2**70)]))
    yield "log2_factorial", checksum(np.array([functions64.log2_factorial(n) for n in NUMBERS]))
    yield "log2_choices", checksum(np.array([functions64.log2_choices(n + 5, 5) for n in NUMBERS]))


def float_network() -> bytes:
    """Returns an ONNX: a quantized MatMul, a LayerNormalization, Gelu written out, a Softmax, and a quantized end."""
    random = np.random.Generator(np.random.PCG64(12))
    scale, zero = numpy_helper.from_array(np.float32(0.031), "scale"), numpy_helper.from_array(np.int8(3), "zero")
    constants = {
        "weights": random.integers(-127, 128, (24, 40), np.int8),
        "weight_scale": np.float32(0.011),
        "weight_zero": np.int8(0),
        "gamma": random.normal(1, 0.2, 40).astype(np.float32),
        "beta": random.normal(0, 0.2, 40).astype(np.float32),
        "root": np.float32(2**0.5),
        "one": np.float32(1),
        "half": np.float32(0.5),
        "end_scale": np.float32(1 / 256),
        "end_zero": np.int8(-128),
    }
    pair = ["scale", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *pair], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", *pair], ["x_d"]),
        helper.make_node("DequantizeLinear", ["weights", "weight_scale", "weight_zero"], ["w_d"]),
        helper.make_node("MatMul", ["x_d", "w_d"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", *pair], ["product_q"]),
        helper.make_node("DequantizeLinear", ["product_q", *pair], ["product_d"]),
        helper.make_node("LayerNormalization", ["product_d", "gamma", "beta"], ["norm"], axis=-1),
        helper.make_node("Div", ["norm", "root"], ["part"]),
        helper.make_node("Erf", ["part"], ["erf"]),
        helper.make_node("Add", ["erf", "one"], ["raised"]),
        helper.make_node("Mul", ["norm", "raised"], ["twice"]),
        helper.make_node("Mul", ["twice", "half"], ["gelu"]),
        helper.make_node("Softmax", ["gelu"], ["shares"], axis=-1),
        helper.make_node("QuantizeLinear", ["shares", "end_scale", "end_zero"], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", "end_scale", "end_zero"], ["y"]),
    ]
    held = [scale, zero, *(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [6, size]) for n, size in (("x", 24), ("y", 40))]
    graph = helper.make_graph(nodes, "floats", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def networks(_: str) -> Lines:
    """Yields a line for model.bin and for each tensor that the simulator computes of two small networks."""
    example = Path(qverify.__file__).parent / "example" / "digits_quant.onnx"
    for name, source in (("digits", example.read_bytes()), ("floats", float_network())):
        graph = compile_model(source, f"{name}.onnx", CompilerOptions(check=False)).graph
        yield f"{name} model.bin", hashlib.sha256(encode(graph)).hexdigest()[:16]
        for tensor, digest in Simulator(graph).run(random_inputs(graph, 3)).digests.items():
            yield f"{name} {tensor}", digest


def hypotheses(stem: str) -> Lines:
    """Yields a line for each page of hypotheses that does not compute what was recorded at this op."""
    from tests.ops.recorded_hypotheses import changed

    yield from ((name, "differs from tests/ops/hypotheses_of_ops.txt") for name in changed(stem))


def explanation(plant: str) -> Lines:
    """Yields a line for each line that triage says of this planted fault."""
    from tests.ops.recorded_explanations import recorded

    (found,) = (p for p in recorded() if str(p) == plant)
    yield from ((str(number), text) for number, text in enumerate(found.explain()))


KINDS: dict[str, Callable[[str], Lines]] = {f.__name__: f for f in (functions, networks, hypotheses, explanation)}


if __name__ == "__main__":
    for words in sys.argv[1:]:
        kind, _, argument = words.partition(" ")
        for name, value in KINDS[kind](argument):
            print(f"{words} | {name} = {value}")
