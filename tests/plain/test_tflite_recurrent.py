"""Operators of a .tflite that keep a state: from the state with which a run begins, LiteRT's reference kernels and the simulator give
the same bytes."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.arithmetic import fixed_point
from qverify.cli.main import main
from qverify.errors import UnsupportedError
from qverify.model_bin import units as model_units
from qverify.session.tflite_alone import open_tflite
from qverify.tflite_model import integer_parts

from tests.plain.test_tflite_alone import compared, opened
from tests.tflite_files import File, schema

litert = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def scale(rng: np.random.Generator, low: float, high: float, ties: bool) -> float:
    drawn = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return 2.0 ** round(np.log2(drawn)) if ties else drawn


def variable(f: File, name: str, shape: list[int], dtype: str, step: float, zero: int = 0) -> int:
    made = f.tensor(name, shape, dtype, step, zero)
    f.tensors[made].isVariable = True
    return made


def svdf(seed: int, rank: int = 2, bias: bool = True, activation: int = 1) -> bytes:
    rng, f, ties = np.random.default_rng(seed), File(), seed % 2 == 1
    inputs, units, memory, batch = 12, 6, 5, 8
    filters = units * rank
    x = f.tensor("x", [batch, inputs], "int8", scale(rng, 0.01, 0.05, ties), int(rng.integers(-20, 20)))
    weights = rng.integers(-127, 128, (filters, inputs)), rng.integers(-20000, 20000, (filters, memory)) // rank
    features = f.tensor("wf", [filters, inputs], "int8", scale(rng, 0.003, 0.02, ties), 0, weights[0])
    times = f.tensor("wt", [filters, memory], "int16", scale(rng, 1e-5, 1e-4, ties), 0, weights[1])
    numbers = rng.integers(-(10**6), 10**6, units)
    b = f.tensor("b", [units], "int32", 1e-7, 0, numbers) if bias else -1
    state = variable(f, "state", [batch, filters * memory], "int16", scale(rng, 0.0002, 0.001, ties))
    y = f.tensor("y", [batch, units], "int8", scale(rng, 0.005, 0.03, ties), -128 if activation else 7)
    f.operator(
        "SVDF", [x, features, times, b, state], [y], "SVDFOptions", rank=rank, fusedActivationFunction=activation
    )
    f.inputs, f.outputs = [x], [y]
    return f.written()


def lstm(seed: int, cell_bits: int = 4, by_time: bool = False, clip: float = 0.0, peephole: bool = False) -> bytes:
    rng, f, ties = np.random.default_rng(seed), File(), seed % 2 == 1
    batch, steps, inputs, n = 3, 5, 7, 6
    zero, hidden_zero = int(rng.integers(-30, 30)), int(rng.integers(-10, 10))
    hidden = scale(rng, 0.006, 0.009, ties)
    x = f.tensor(
        "x", [steps, batch, inputs] if by_time else [batch, steps, inputs], "int8", scale(rng, 0.01, 0.05, ties), zero
    )

    def weights(name: str, length: int) -> list[int]:
        values = [rng.integers(-127, 128, (n, length)) for _ in range(4)]
        return [
            f.tensor(f"{name}{k}", [n, length], "int8", scale(rng, 0.003, 0.03, ties), 0, v)
            for k, v in enumerate(values)
        ]

    into, back = weights("w", inputs), weights("r", n)
    more = [f.tensor(f"p{k}", [n], "int16", 2.0**-12, 0, rng.integers(-9, 9, n)) if peephole else -1 for k in range(3)]
    biases = [f.tensor(f"b{k}", [n], "int32", 1e-4, 0, rng.integers(-3000, 3000, n)) for k in range(4)]
    states = [
        variable(f, "h", [batch, n], "int8", hidden, hidden_zero),
        variable(f, "c", [batch, n], "int16", 2.0 ** (cell_bits - 15)),
    ]
    y = f.tensor("y", [steps, batch, n] if by_time else [batch, steps, n], "int8", hidden, hidden_zero)
    inner = [f.tensor(f"i{k}", [0], "float32", None) for k in range(4)]
    inner.append(f.tensor("i4", [0], "int8", hidden, hidden_zero))
    f.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *into, *back, *more, *biases, -1, -1, *states, -1, -1, -1, -1], [y],
        "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4, timeMajor=by_time, cellClip=clip,
    )  # fmt: skip
    f.inputs, f.outputs = [x], [y]
    return with_intermediates(f.written(), inner)


def with_intermediates(data: bytes, tensors: list[int]) -> bytes:
    from qverify.tflite_model.interpreter import open_object, pack_object

    source = open_object(schema(), data)
    source.subgraphs[0].operators[0].intermediates = tensors
    return pack_object(source)


@litert
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("rank", "bias", "activation"), [(1, True, 1), (2, True, 1), (2, False, 1)])
def test_an_svdf_gives_what_litert_does(seed: int, rank: int, bias: bool, activation: int, tmp_path: Path):
    assert compared(opened(svdf(seed, rank, bias, activation), tmp_path), seed) == {"y": 0}


@litert
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "how", [{}, {"cell_bits": 3}, {"cell_bits": 0}, {"by_time": True}, {"clip": 3.0}], ids=lambda how: str(how)
)
def test_an_lstm_gives_what_litert_does(seed: int, how: dict[str, int], tmp_path: Path):
    assert compared(opened(lstm(seed, **how), tmp_path), seed) == {"y": 0}


@litert
@pytest.mark.parametrize("data", [lstm, svdf], ids=["lstm", "svdf"])
def test_a_board_gives_the_same_bytes(data, tmp_path: Path):
    """What is inside the operator is compared with its output only."""
    path, report = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(data(0))
    assert main(["-m", str(path), "-b", "local", "-r", "True", "--json", str(report)]) == 0
    said = json.loads(report.read_text())
    assert all(p["bit_equal"] and [t["name"] for t in p["tensors"]] == ["y"] for p in said["pairs"])
    assert not said["on_host"]


@litert
@pytest.mark.parametrize(
    ("how", "why"), [({"cell_bits": 6}, "a cell state in steps of"), ({"peephole": True}, "peepholes")]
)
def test_a_form_whose_arithmetic_is_not_known_is_refused(how: dict[str, int], why: str):
    with pytest.raises(UnsupportedError, match=why):
        open_tflite("m.tflite", lstm(0, **how))


def test_the_functions_are_near_the_real_ones():
    codes = np.arange(-(1 << 15), 1 << 15)
    apart = np.abs(fixed_point.logistic(codes) - 2.0**15 / (1 + np.exp(-codes / 4096.0)))
    assert apart.max() < 8 and fixed_point.logistic(np.array([0])) == 1 << 14
    for bits in range(fixed_point.MOST_BITS + 1):
        real = np.tanh(codes * 2.0 ** (bits - 15)) * 2**15
        assert np.abs(fixed_point.tanh(codes, bits) - real).max() < 13, bits
    with pytest.raises(ValueError, match="5 integer bits"):
        fixed_point.tanh(codes, 5)


def test_inner_steps_are_named_as_the_compiler_knows_them():
    assert integer_parts.INNER == model_units.INNER
