"""The kernels of every instruction set of this processor against the plain loops, on awkward sizes, bit for bit."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from qverify.model_bin.records import encode

from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import digests, instruction_sets

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
TYPES = ("uint8", "int8")
NEAR_WRAP = 2**31 - 4000


def convolution(
    r: RandomNodes,
    types: tuple[str, str],
    shape: tuple[int, int, int, int],
    outputs: int,
    window: tuple[int, ...],
    group: int = 1,
    floats: bool = False,
) -> None:
    """shape: of x. window: kernel, strides, four pads, dilations. Its bias brings some sums close to where int32 wraps."""
    kh, kw, sh, sw, top, left, bottom, right, dh, dw = window
    channels = outputs if r.rng.random() < 0.5 else 1
    x, w = r.input(types[0], shape), r.weights(types[1], (outputs, shape[1] // group, kh, kw), channels)
    high = (shape[2] + top + bottom - (kh - 1) * dh - 1) // sh + 1
    wide = (shape[3] + left + right - (kw - 1) * dw - 1) // sw + 1
    bias = r.rng.integers(-9000, 9000, outputs)
    bias[:: r.pick(3, 5)] = r.pick(NEAR_WRAP, -NEAR_WRAP)
    size = (shape[0], outputs, high, wide)
    if floats:
        y, rq, limits = r.float_output(size), r.real_scales(channels), (0, 0)
    else:
        y = r.output(r.type(), size)
        rq, limits = r.rq(shape[1] // group * kh * kw, channels), r.limits(y.dtype)
    made = r.float_bias(outputs) if floats and r.pick(0, 1) else r.constant(bias.astype(np.int32))
    r.node("conv", (x, w, made, rq), y, (*window, group, *limits))


def convolutions(r: RandomNodes) -> None:
    ones = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1)
    for types in product(TYPES, TYPES):
        for channels, side, outputs in ((2, 1, 1), (3, 9, 6), (4, 8, 7), (5, 1, 13), (66, 7, 12), (33, 11, 65)):
            convolution(r, types, (2, channels, side, side), outputs, ones, floats=channels == 33)
        convolution(r, types, (1, 3, 23, 37), 7, (7, 7, 2, 2, 3, 3, 3, 3, 1, 1))
        convolution(r, types, (1, 16, 20, 21), 19, (3, 3, 1, 1, 1, 1, 1, 1, 1, 1))  # enough for threads to share
        convolution(r, types, (1, 64, 5, 5), 35, (3, 3, 1, 1, 1, 1, 1, 1, 1, 1))  # one tile: shared by output channels
        convolution(r, types, (1, 6, 17, 19), 11, (3, 3, 1, 1, 1, 1, 1, 1, 1, 1))
        convolution(r, types, (2, 8, 14, 14), 8, (3, 3, 2, 2, 1, 1, 1, 1, 1, 1), group=2)
        convolution(r, types, (1, 9, 5, 130), 6, (1, 5, 1, 3, 0, 4, 0, 2, 1, 2), group=3)
        convolution(r, types, (1, 4, 15, 13), 5, (2, 3, 3, 2, 0, 2, 1, 0, 2, 3))
        convolution(r, types, (1, 5, 6, 70), 4, (5, 1, 1, 4, 4, 0, 4, 0, 1, 1), floats=True)
        convolution(r, types, (1, 7, 3, 3), 6, (9, 9, 1, 1, 6, 7, 6, 5, 1, 1))
        for stride, side in product((1, 2), (7, 33)):
            convolution(r, types, (1, 6, side, side), 6, (3, 3, stride, stride, 1, 1, 1, 1, 1, 1), group=6)


def transposed_convolutions(r: RandomNodes) -> None:
    """x (2, channels, h, w) of 2 groups, 5 outputs each; the last windows leave input and output pixels unused."""
    for types in product(TYPES, TYPES):
        for channels, h, w, window in (
            (2, 1, 1, (2, 2, 2, 2, 0, 0, 0, 0, 1, 1)),
            (6, 5, 13, (3, 3, 2, 2, 1, 1, 1, 1, 1, 1)),
            (10, 9, 8, (2, 5, 1, 3, 0, 2, 1, 0, 1, 1)),
            (8, 3, 70, (3, 2, 3, 1, 2, 0, 2, 1, 1, 2)),
        ):
            kh, kw, sh, sw, top, left, bottom, right, dh, dw = window
            x, k = r.input(types[0], (2, channels, h, w)), r.weights(types[1], (channels, 5, kh, kw), 5, 1)
            size = ((h - 1) * sh + (kh - 1) * dh + 1 - top - bottom, (w - 1) * sw + (kw - 1) * dw + 1 - left - right)
            bias = r.constant(r.rng.choice([7, -5000, NEAR_WRAP, -NEAR_WRAP], 10).astype(np.int32))
            y = r.output(r.type(), (2, 10, *size))
            rq = r.rq(channels * kh * kw // 2, 10, False, False)
            r.node("conv_transpose", (x, k, bias, rq), y, (*window, 2, *r.limits(y.dtype)))


def products(r: RandomNodes) -> None:
    for (ta, tb), rows, depth, columns in product(
        product(TYPES, TYPES), (1, 5, 6, 13), (1, 3, 64, 67), (1, 17, 64, 129)
    ):
        channels = r.pick(1, columns)
        a, b = r.input(ta, (rows, depth)), r.input(tb, (depth, columns), channels, 1 if channels > 1 else -1)
        if r.pick(0, 1, 2):
            y, scales = r.output(ta, (rows, columns)), r.rq(depth, r.pick(1, columns))
            r.node("matmul", (a, b, scales), y, r.limits(y.dtype))
        else:
            r.node("matmul", (a, b, r.real_scales(r.pick(1, columns))), r.float_output((rows, columns)), (0, 0))
        w = r.weights(tb, (columns, depth), channels)
        bias = r.constant(r.rng.choice([7, -5000, NEAR_WRAP, -NEAR_WRAP], columns).astype(np.int32))
        if r.pick(0, 1, 2) == 0:
            scales = r.real_scales(r.pick(1, columns))
            inputs = (a, w, r.float_bias(columns) if r.pick(0, 1) else bias, scales)
            r.node("fully_connected", inputs, r.float_output((rows, columns)), (0, 0))
        y = r.output(r.type(), (rows, columns))
        r.node("fully_connected", (a, w, bias, r.rq(depth, channels)), y, r.limits(y.dtype))
    for ta, tb in product(TYPES, TYPES):  # enough for threads to share
        a, b = r.input(ta, (2, 20, 70)), r.input(tb, (70, 260))
        y = r.output(ta, (2, 20, 260))
        r.node("matmul", (a, b, r.rq(70, 1)), y, r.limits(y.dtype))
    x, w = r.at_the_end("uint8", (1, 70000)), r.weights_of("int8", np.full((3, 70000), -128))  # the products alone wrap
    y = r.output("int8", (1, 3))
    r.node("fully_connected", (x, w, None, r.rq(70000, 1)), y, (-128, 127))


def write(made: RandomNodes, folder: Path) -> list[str]:
    """Writes model.bin and 0.bin, 1.bin, ... of its inputs; returns their names."""
    (folder / "model.bin").write_bytes(encode(made.graph()))
    names = list(made.values)
    for i, name in enumerate(names):
        (folder / f"{i}.bin").write_bytes(np.ascontiguousarray(made.values[name]).tobytes())
    return names


def words_of(made: RandomNodes) -> dict[str, str]:
    """Each output's name to what makes it."""
    return {n.outputs[0]: f"{n.op} {[made.specs[i].shape for i in n.inputs if i]} {n.words}" for n in made.nodes}


@pytest.mark.parametrize(
    "sanitized", [False, pytest.param(True, marks=pytest.mark.slow)]
)  # the runtime, compiled again
@pytest.mark.parametrize("made_by", [convolutions, transposed_convolutions, products])
@pytest.mark.parametrize("rounding", ["ref-exact", "tflite-single", "gemmlowp", "pow2-floor"])
def test_they_agree(made_by, rounding: str, sanitized: bool, tmp_path: Path) -> None:
    made = RandomNodes(rounding, 77, in_forms=True)
    made_by(made)
    names = write(made, tmp_path)
    program = binary(sanitized)
    sets = instruction_sets(program)
    assert "portable" in sets
    plain = digests(program, tmp_path, names, "--plain")
    assert len(plain) == len(made.nodes)
    words = words_of(made)
    for name, threads in [(name, 1) for name in sets] + [(sets[0], 2), (sets[0], 5)]:
        found = digests(program, tmp_path, names, f"--instructions={name}", f"--threads={threads}")
        assert {words[t]: d for t, d in found.items() if d != plain[t]} == {}, (name, threads)


def test_another_processors_set_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(binary()), "perf", "--model_file=m.bin", "--instructions=abacus"],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"qvrt: --instructions=abacus: not of this processor. Next: one of {' '.join(instruction_sets(binary()))}\n"
    )
