"""Converts operators that keep a state, from the state with which a run begins: UNIDIRECTIONAL_SEQUENCE_LSTM of int8, step by
step, and SVDF of int8 (LITERT.md, Recurrent operators of a .tflite)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qverify.arithmetic.fixed_point import MOST_BITS, logistic, tanh
from qverify.tflite_model.checks import require
from qverify.tflite_model.integer_parts import IntegerParts
from qverify.tflite_model.options import ACTIVATION
from qverify.tflite_model.read_tflite import TfliteOperator, TfliteTensor
from qverify.tflite_model.writer import INT8, Array, Writer

EVERY = np.arange(-(1 << 15), 1 << 15)  # int16
RELU, TANH = 1, 4  # the schema's codes of activations
GATE_STEPS = 12  # fraction bits of a gate before its function
LIMITS_16 = -(1 << 15), (1 << 15) - 1
SVDF_INPUTS, LSTM_INPUTS = 5, 20
WEIGHTS = {"input": (1, 2, 4, 3), "recurrent": (5, 6, 8, 7), "bias": (12, 13, 15, 14)}  # of the gates i, f, o and c
LEFT_OUT = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, a projection, normalized layers


def _single(tensor: TfliteTensor, dtype: str, zero: bool = True) -> bool:
    """Returns whether a tensor has this type, one scale, and the zero point 0 if `zero` is set."""
    return tensor.dtype == dtype and tensor.scale.size == 1 and not (zero and tensor.zero.any())


def _own_state(writer: Writer, operator: TfliteOperator, index: int) -> TfliteTensor:
    """Returns a variable tensor. Raises UnsupportedError if it is none, or another operator uses it."""
    tensor = writer.tensor(index)
    users = [o for o in writer.model.operators if index in o.inputs or index in o.outputs]
    require(tensor.variable and tensor.data is None and users == [operator], "a state that is no variable of its own")
    return tensor


def svdf(writer: Writer, operator: TfliteOperator) -> None:
    """Writes an SVDF. The state begins with zeros, so that of the products over time only the newest is not 0."""
    require(len(operator.inputs) == SVDF_INPUTS and min(operator.inputs[:3]) >= 0, f"{len(operator.inputs)} inputs")
    x, features, times = (writer.tensor(i) for i in operator.inputs[:3])
    state, y = _own_state(writer, operator, operator.inputs[4]), writer.tensor(operator.outputs[0])
    require(_single(x, "int8", False) and _single(y, "int8", False), f"{x.dtype} and {y.dtype} as input and output")
    require(_single(features, "int8") and _single(times, "int16"), f"weights of {features.dtype} and {times.dtype}")
    require(_single(state, "int16") and operator.options[ACTIVATION] in (0, RELU), f"a state of {state.dtype}")
    require(features.data is not None and times.data is not None, "weights that are no constant")
    assert features.data is not None and times.data is not None
    rank, filters = int(operator.options["Rank"]), features.shape[0]
    units = filters // max(rank, 1)
    fits = len(x.shape) == 2 and times.shape[0] == filters == units * rank and y.shape == (x.shape[0], units)
    require(fits, f"{list(x.shape)} to {list(y.shape)} by {filters} filters of rank {rank}")
    parts = IntegerParts(writer, writer.name(y.index))
    sums = parts.products(writer.stored(x.index), int(x.zero[0]), features.data.T)
    first = float(np.float32(np.float32(x.scale[0] * features.scale[0]) / state.scale[0]))
    newest = parts.clip(parts.scaled(sums, first, _most(features.data)), *LIMITS_16)
    weighted = parts.product(newest, parts.numbers(times.data[:, -1]))
    by_rank = parts.node(
        "ReduceSum", parts.reshaped(weighted, [x.shape[0], units, rank]), parts.numbers([2]), keepdims=0
    )
    bias = _bias(writer, operator.inputs[3], units)
    total = parts.sum(by_rank, parts.numbers(bias))
    last = float(np.float32(np.float32(state.scale[0] * times.scale[0]) / y.scale[0]))
    newest_weights = np.abs(times.data[:, -1].astype(np.int64)).reshape(units, rank)
    most = int((newest_weights.sum(1) * (1 << 15) + np.abs(bias)).max())
    made = parts.sum(parts.scaled(total, last, most), parts.numbers(int(y.zero[0])))
    low = max(-128, int(y.zero[0])) if operator.options[ACTIVATION] == RELU else -128
    writer.node("Cast", [parts.clip(made, low, 127)], writer.mapped(y.index), to=INT8)


def _bias(writer: Writer, index: int, outputs: int) -> Array:
    """Returns a bias of int32 as int64, zeros if it is left out."""
    if index < 0:
        return np.zeros(outputs, np.int64)
    data = writer.tensor(index).data
    require(
        data is not None and data.dtype == np.int32 and data.shape == (outputs,), "a bias that is no constant of int32"
    )
    assert data is not None
    return data.astype(np.int64)


def _most(weights: Array) -> int:
    """Returns a bound of the sums of a byte's differences with rows of weights."""
    return int(np.abs(weights.astype(np.int64)).sum(1).max()) * 255


@dataclass(frozen=True, slots=True)
class _Cell:
    """The constants of an LSTM. Weights are [inputs, 4 outputs] of the gates i, f, o and c. bias: [4 outputs]. scales: from the sums
    with the input and with the output before to a gate, one for each column. most: bounds of these sums. bits: integer bits of
    the cell state. limit: of the cell state."""

    from_input: Array
    from_output: Array
    bias: Array
    scales: tuple[Array, Array]
    most: tuple[int, int]
    bits: int
    limit: int
    hidden: TfliteTensor

    @property
    def outputs(self) -> int:
        return self.from_output.shape[0]


def _read_cell(writer: Writer, operator: TfliteOperator) -> _Cell:
    """Returns the constants of an LSTM. Raises UnsupportedError for a form whose arithmetic is not known."""
    inputs = [*operator.inputs, *[-1] * 24]
    require(
        len(operator.inputs) >= LSTM_INPUTS and all(inputs[i] < 0 for i in LEFT_OUT),
        "peepholes, a projection or normalization",
    )
    x, y = writer.tensor(inputs[0]), writer.tensor(operator.outputs[0])
    output, cell = (_own_state(writer, operator, inputs[i]) for i in (18, 19))
    weights = {k: [writer.tensor(inputs[i]) for i in WEIGHTS[k] if inputs[i] >= 0] for k in ("input", "recurrent")}
    require(all(len(w) == 4 for w in weights.values()), "coupled gates")
    for tensor in (*weights["input"], *weights["recurrent"]):
        require(_single(tensor, "int8") and tensor.data is not None, f"weights of {tensor.dtype}")
    bytes_only = all(_single(t, "int8", False) for t in (x, y, output))
    require(
        bytes_only and _single(cell, "int16"), f"{x.dtype} and {y.dtype} as input and output, a cell of {cell.dtype}"
    )
    require(operator.options[ACTIVATION] == TANH, f"activation {operator.options[ACTIVATION]}")
    hidden = [writer.tensor(i) for i in operator.intermediates[4:5] if i >= 0]
    require(len(hidden) == 1 and hidden[0].scale.size == 1, "no scale of its hidden state")
    fraction, exponent = math.frexp(float(cell.scale[0]))
    bits = 15 + exponent - 1
    require(fraction == 0.5 and 0 <= bits <= MOST_BITS, f"a cell state in steps of {float(cell.scale[0]):g}")
    outputs = weights["recurrent"][0].shape[0]
    stacked = [_stacked(weights[k], outputs, n) for k, n in (("input", x.shape[-1]), ("recurrent", outputs))]
    bias = np.concatenate([_bias(writer, inputs[i], outputs) for i in WEIGHTS["bias"]])
    scales = tuple(
        np.repeat([float(np.float32(s * w.scale[0])) * 2.0**GATE_STEPS for w in weights[k]], outputs)
        for k, s in (("input", x.scale[0]), ("recurrent", output.scale[0]))
    )
    most = [_most(each.T) for each in stacked]
    clip = float(operator.options["CellClip"])
    limit = int(min(clip / float(cell.scale[0]), LIMITS_16[1])) if clip > 0 else LIMITS_16[1]
    most_input = most[0] + int(np.abs(bias).max())
    return _Cell(stacked[0], stacked[1], bias, (scales[0], scales[1]), (most_input, most[1]), bits, limit, hidden[0])


def _stacked(tensors: Sequence[TfliteTensor], outputs: int, inputs: int) -> Array:
    """Returns the weights of the gates side by side, [inputs, 4 outputs]."""
    require(all(t.shape == (outputs, inputs) for t in tensors), f"weights of {[list(t.shape) for t in tensors]}")
    return np.concatenate([t.data for t in tensors if t.data is not None]).T


def lstm(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a UNIDIRECTIONAL_SEQUENCE_LSTM of int8, whose states begin with 0."""
    cell, by_time = _read_cell(writer, operator), bool(operator.options["TimeMajor"])
    x, y = writer.tensor(operator.inputs[0]), writer.tensor(operator.outputs[0])
    require(len(x.shape) == 3 and y.shape == (*x.shape[:2], cell.outputs), f"{list(x.shape)} to {list(y.shape)}")
    steps, batch = x.shape[:2] if by_time else (x.shape[1], x.shape[0])
    parts = IntegerParts(writer, writer.name(y.index))
    sums = parts.sum(parts.products(writer.stored(x.index), int(x.zero[0]), cell.from_input), parts.numbers(cell.bias))
    gates = parts.clip(parts.scaled(sums, cell.scales[0], cell.most[0]), *LIMITS_16)
    axis = 0 if by_time else 1
    made, state = list[str](), ("", "")
    for step in range(steps):
        state = _step(parts, cell, parts.node("Gather", gates, parts.numbers(step), axis=axis), state, writer, operator)
        made.append(state[0])
    joined = parts.node("Concat", *made, axis=axis) if len(made) > 1 else made[0]
    shape = parts.numbers([steps, batch, cell.outputs] if by_time else [batch, steps, cell.outputs])
    writer.node("Cast", [parts.node("Reshape", joined, shape)], writer.mapped(y.index), to=INT8)


def _step(
    parts: IntegerParts, cell: _Cell, gates: str, before: tuple[str, str], writer: Writer, operator: TfliteOperator
) -> tuple[str, str]:
    """Returns the output and the cell state after a step. gates: from the input alone, [batch, 4 outputs]. before: the same
    after the step before, ("", "") at the first, where both stand for 0."""
    output, n = writer.tensor(operator.inputs[18]), cell.outputs
    if before[0]:
        sums = parts.products(parts.bytes_of(before[0]), int(output.zero[0]), cell.from_output)
        gates = parts.clip(parts.sum(gates, parts.scaled(sums, cell.scales[1], cell.most[1])), *LIMITS_16)
    opened = parts.looked_up(parts.columns(gates, 0, 3 * n), "logistic", logistic(EVERY))
    taken, kept, shown = (parts.columns(opened, k * n, (k + 1) * n) for k in range(3))
    new = parts.looked_up(parts.columns(gates, 3 * n, 4 * n), "tanh3", tanh(EVERY, 3))
    state = parts.divided(parts.product(taken, new), 15 + cell.bits)
    if before[1]:
        state = parts.sum(parts.divided(parts.product(kept, before[1]), 15), state)
    state = parts.clip(state, *LIMITS_16)
    if cell.limit < LIMITS_16[1]:
        state = parts.clip(state, -cell.limit, cell.limit)
    seen = parts.product(shown, parts.looked_up(state, f"tanh{cell.bits}", tanh(EVERY, cell.bits)))
    small = np.float32(2.0**-15)
    scaled = parts.scaled(seen, float(np.float32(np.float32(small / cell.hidden.scale[0]) * small)), 1 << 30)
    moved = parts.clip(parts.sum(scaled, parts.numbers(int(cell.hidden.zero[0]))), -128, 127)
    return moved, state


RECURRENT = {"SVDF": svdf, "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm}
