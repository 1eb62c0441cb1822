"""The cause at the blamed node of a runner, named from the recording alone: a known fault that gives every byte, or all but
a few of another rounding; nothing where chance could fit, and nothing of a right board."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.units import units
from qverify.renderers.blamed import blame_line
from qverify.report.document import Blame
from qverify.report.facts import NamedCause
from qverify.session import recorded_causes
from qverify.sides.simulator import Simulator
from qverify.tensors.recording import Recording
from qverify.triage.plain_faults.scale_factor import choose_number

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Array, Board, Change, Judged
from tests.plain.mechanisms import constant, shown

Make = Callable[[], Qdq]


def conv(act: str = "uint8", relu: bool = False, symmetric: bool = False, clip: float = 0.0) -> Qdq:
    """x -> conv with bias -> Relu or Clip, if asked -> quantize."""
    m = Qdq(act, symmetric=symmetric, seed=3)
    x = m.input((1, 8, 12, 12))
    w = m.weight((8, 8, 3, 3), axis=0)
    b = m.bias(x, w, 8)
    last = "y"
    m.op("Conv", [x, w, b], "c" if relu or clip else "y", pads=[1] * 4)
    if relu:
        m.op("Relu", ["c"], "y")
    if clip:
        m.op("Clip", ["c", m.constant("low", np.float32(0)), m.constant("high", np.float32(clip))], "y")
    m.output(m.quantize(last))
    return m


def one(kind: str, low: float = -3.0, **attributes: Any) -> Qdq:
    m = Qdq("uint8", seed=4)
    m.output(m.quantize(m.op(kind, [m.input((1, 8, 6, 6), low, 3.0)], "y", **attributes)))
    return m


def two(kind: str, **attributes: Any) -> Qdq:
    m = Qdq("uint8", seed=4)
    names = [m.input((1, 8, 6, 6), -2, 3), m.input((1, 8, 6, 6), -1, 1.5)]
    m.output(m.quantize(m.op(kind, names, "y", **attributes)))
    return m


def matmul() -> Qdq:
    m = Qdq("uint8", seed=5)
    m.output(m.quantize(m.op("MatMul", [m.input((4, 32)), m.weight((32, 32))], "y")))
    return m


def put(values: Array, at: Any, value: Any) -> Array:
    values[at] = value
    return values


def parameter(name: str, alter: Callable[[Array], Any], which: int = 1) -> Change:
    """Gives the DequantizeLinear that makes a tensor another scale (1) or zero point (2)."""

    def change(board: Board) -> None:
        node = board.nodes[name]
        before = board.constants[node.input[which]]
        board.constants["other"] = np.asarray(alter(before), before.dtype)
        node.input[which] = "other"

    return change


def output_zero_point(by: int) -> Change:
    def change(board: Board) -> None:
        node = board.last("QuantizeLinear")
        before = board.constants[node.input[2]]
        board.constants["moved"] = np.asarray(before.astype(int) + by, before.dtype)
        node.input[2] = "moved"

    return change


def pad_with_code_0(board: Board) -> None:
    scale, zero = float(board.constants["in0_scale"]), float(board.constants["in0_zp"])
    board.insert("in0_dq", "Pad", np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.float32(-zero * scale))
    board.set(board.first("Conv"), pads=[0] * 4)


def without_relu(board: Board) -> None:
    relu = board.first("Relu")
    for node in board.nodes.values():
        for at, name in enumerate(node.input):
            if name == relu.output[0]:
                node.input[at] = relu.input[0]


def exchanged_scales(board: Board) -> None:
    board.nodes["in0_dq"].input[1], board.nodes["in1_dq"].input[1] = "in1_scale", "in0_scale"


def add(by: int) -> Change:
    return shown(lambda y: np.clip(y.astype(int) + by, 0, 255).astype(y.dtype))


def noise(values: Array, reach: int) -> Array:
    steps = np.random.default_rng(1).integers(-reach, reach + 1, values.shape)
    return np.clip(values.astype(int) + steps, 0, 255).astype(values.dtype)


LEAKY: Make = lambda: one("LeakyRelu", alpha=0.1)  # noqa: E731
FAULTS: dict[str, tuple[Make, Change, str]] = {
    "bias of a channel": (conv, constant("_i32", lambda b: put(b, 3, 0)), "bias left out, in channel 3"),
    "all biases": (conv, constant("_i32", np.zeros_like), "bias left out"),
    "padding with 0": (conv, pad_with_code_0, "pad value 0 instead of the zero point"),
    "weights of a channel": (conv, constant("_i8", lambda w: put(w, 2, 0)), "the weights of channel 2 are 0"),
    "rotated kernel": (conv, constant("_i8", lambda w: w[:, :, ::-1, ::-1]), "kernel rotated by 180 degrees"),
    "transposed kernel": (conv, constant("_i8", lambda w: w.transpose(0, 1, 3, 2)), "kernel transposed"),
    "weights one channel on": (
        conv,
        constant("_i8", lambda w: np.roll(w, 1, 0)),
        "output channels of the weights one too far",
    ),
    "window one further": (
        conv,
        lambda board: board.set(board.first("Conv"), pads=[0, 0, 2, 2]),
        "pad_top and pad_left are ignored: all padding is at the end",
    ),
    "zero point of the output": (conv, output_zero_point(5), r"zero point of the output: 123 instead of 118"),
    "negative zero point": (lambda: conv("int8"), output_zero_point(-7), r"-7 is added to every element"),
    "constant added": (conv, add(3), r"\+3 is added to every element"),
    "zero point of the input": (conv, parameter("in0_dq", lambda z: z - 7, 2), "zero point of the input: 95 instead"),
    "lost zero point": (conv, parameter("in0_dq", np.zeros_like, 2), "zero point of the input: 0 instead of 102"),
    "Relu lost": (lambda: conv("int8", True, True), without_relu, r"clamp left out \(-128..127 instead of 0..127\)"),
    "Clip at another limit": (
        lambda: conv("int8", symmetric=True, clip=6.0),
        constant("high", lambda _: np.float32(4)),
        "clamp at 85 instead of 127 at the upper end",
    ),
    "saturated too early": (conv, shown(lambda y: np.minimum(y, 200)), "clamp at 200 instead of 255"),
    "scale of a channel": (
        conv,
        lambda board: constant(board.nodes[board.first("Conv").input[1]].input[1], lambda s: put(s, 5, 0.02))(board),
        r"scaled by 1\.\d+ times the right factor \(a scale\), the bias is not, in channel 5",
    ),
    "another bias in a channel": (
        conv,
        constant("_i32", lambda b: put(b, 3, b[3] + 900)),
        r"0\.6\d? LSB are added before rounding in channel 3 \(its bias\)",
    ),
    "weights exchanged": (
        conv,
        constant("_i8", lambda w: w[[0, 1, 5, 3, 4, 2, 6, 7]]),
        "output channels of the weights: 2 and 5 are exchanged",
    ),
    "scale of an Add": (
        lambda: two("Add"),
        parameter("in1_dq", lambda s: s * 1.1),
        "the scale of the operand in1_q is 1.1 times the right one",
    ),
    "scales exchanged": (lambda: two("Add"), exchanged_scales, "in0_q and in1_q are exchanged"),
    "scale of a Mul": (
        lambda: two("Mul"),
        parameter("in1_dq", lambda s: s * 1.1),
        r"the product of both operands is scaled by 1.1 times the right factor \(a scale\)",
    ),
    "scale of a Concat": (
        lambda: two("Concat", axis=1),
        parameter("in1_dq", lambda s: s * 1.1),
        "the scale of the operand in1_q is 1.1 times the right one",
    ),
    "slope": (
        LEAKY,
        lambda board: board.set(board.first("LeakyRelu"), alpha=26 / 256),
        r"the slope of negative values is 0\.101\d* instead of 0.1",
    ),
    "table one entry on": (
        lambda: one("Sigmoid"),
        lambda board: board.insert("in0_dq", "Add", board.constants["in0_scale"]),
        "table index one too high",
    ),
    "another function": (
        lambda: one("Tanh", low=-4.0),
        lambda board: (
            board.insert("in0_dq", "Clip", np.float32(-1), np.float32(1))
            or board.set(board.first("Tanh"))
            or board.nodes.__setitem__("y", _identity(board))
        ),
        r"the table is that of x limited to -1\.\.1",
    ),
    "Softmax of another axis": (
        lambda: one("Softmax", axis=1),
        lambda board: board.set(board.first("Softmax"), axis=2),
        "softmax runs over axis 2 instead of its own: gives all but .* elements, which are 1 LSB off",
    ),
    "transposed matrix": (matmul, constant("_i8", lambda w: w.T), "layout: the second input is stored transposed"),
    "padding in a mean": (
        lambda: one("AveragePool", kernel_shape=[3, 3], pads=[1] * 4),
        lambda board: board.set(board.first("AveragePool"), count_include_pad=1),
        "window: padding is counted in the mean, or not, the other way",
    ),
    "tail left out": (
        conv,
        shown(lambda y: put(y.reshape(-1).copy(), slice(-16, None), 0).reshape(y.shape)),
        "everything from element 1136 on left out: 0 everywhere",
    ),
    "last channel left out": (
        conv,
        shown(lambda y: put(y.copy(), (slice(None), -1), 0)),
        "channel 7 left out: 0 everywhere",
    ),
    "one value everywhere": (conv, shown(lambda y: np.full_like(y, 77)), "every element has the same value, 77"),
    "lowest bit lost": (conv, shown(lambda y: y & 254), "the elements of the output lose their lowest 1 bit"),
}


def _identity(board: Board) -> Any:
    tanh = board.first("Tanh")
    tanh.op_type = "Identity"
    return tanh


@pytest.mark.parametrize("name", FAULTS)
def test_a_plain_fault_is_named(name: str) -> None:
    make, change, said = FAULTS[name]
    report = Judged(make()).report(change)
    blame = report.blame
    assert report.verdict == "FAILED" and blame is not None and (blame.side, blame.node) == ("board", "y_q")
    assert blame.cause is not None, blame.why
    assert re.search(f"^cause: .*{said}", blame.cause.line), blame.cause.line
    assert blame.cause.bits >= blame.cause.wanted and blame.cause.tensor == "y_q"
    assert blame_line(blame).splitlines()[2] == f"  {blame.cause.line}"


def floats(kind: str, parameters: int = 0, **attributes: Any) -> Qdq:
    """A float operator after a quantized input."""
    m = Qdq("uint8", seed=4)
    x = m.input((2, 6, 16), -3.0, 3.0)
    constants = [m.constant(f"c{at}", m.rng.normal(size=16).astype(np.float32)) for at in range(parameters)]
    m.output(m.op(kind, [x, *constants], "y", **attributes))
    return m


def with_float_noise(change: Change) -> Change:
    """Changes the last bits of the output, too, as other float32 arithmetic does."""

    def both(board: Board) -> None:
        change(board)
        rng = np.random.default_rng(5)
        board.after["y"] = lambda y: (y * (1 + rng.uniform(-1, 1, y.shape) * 2.0**-20)).astype(np.float32)

    return both


FLOAT_FAULTS: dict[str, tuple[Make, Change, str]] = {
    "axis": (
        lambda: floats("Softmax", axis=-1),
        lambda board: board.set(board.first("Softmax"), axis=1),
        "softmax runs over axis 1 instead of its own",
    ),
    "epsilon": (
        lambda: floats("LayerNormalization", 2, axis=-1),
        lambda board: board.set(board.first("LayerNormalization"), epsilon=0.1),
        "layer norm: epsilon is 0.1",
    ),
    "beta": (
        lambda: floats("LayerNormalization", 2, axis=-1),
        lambda board: board.constants.__setitem__("c1", np.zeros(16, np.float32)),
        "beta",
    ),
}


@pytest.mark.parametrize("name", FLOAT_FAULTS)
def test_a_fault_of_a_float_node_is_named_beside_other_float_arithmetic(name: str) -> None:
    make, change, said = FLOAT_FAULTS[name]
    blame = Judged(make()).report(with_float_noise(change)).blame
    assert blame is not None and blame.node == "y" and blame.cause is not None, blame
    assert re.search(f"^cause: .*{said}.* all 192 elements within 2\\^-16 of itself; ", blame.cause.line), (
        blame.cause.line
    )


def test_nothing_is_said_of_floats_that_no_fault_gives() -> None:
    board = Judged(floats("LayerNormalization", 2, axis=-1))
    noise = np.random.default_rng(6).normal(size=(2, 6, 16)) * 0.1
    blame = board.report(lambda b: b.after.update({"y": lambda y: (y + noise).astype(np.float32)})).blame
    assert blame is not None and blame.cause is None


UNKNOWN: dict[str, Change] = {
    "weights of other values": constant(
        "_i8", lambda w: np.clip(w + np.random.default_rng(7).integers(-1, 2, w.shape), -128, 127).astype(np.int8)
    ),
    "few elements": shown(lambda y: np.where(np.random.default_rng(8).random(y.shape) < 0.01, y ^ 64, y)),
    "noise of 1 LSB": shown(lambda y: noise(y, 1)),
    "noise of 9 LSB": shown(lambda y: noise(y, 9)),
    "random values": shown(lambda y: np.random.default_rng(2).integers(0, 256, y.shape).astype(y.dtype)),
    "a random order": shown(lambda y: np.random.default_rng(3).permutation(y.reshape(-1)).reshape(y.shape)),
    "one element": shown(lambda y: put(y.copy(), (0, 3, 4, 5), y[0, 3, 4, 5] ^ 16)),
    "a part of the sums": constant(
        "_i8", lambda w: np.random.default_rng(4).permutation(w.reshape(-1)).reshape(w.shape)
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_said_without_a_known_cause(name: str) -> None:
    report = Judged(conv()).report(UNKNOWN[name])
    assert report.blame is not None and (report.blame.side, report.blame.node) == ("board", "y_q")
    assert report.blame.cause is None
    assert len(blame_line(report.blame).splitlines()) == 2


@pytest.mark.parametrize("mode", ["gemmlowp", "cmsis", "mul31", "pow2-half-up"])
def test_a_right_board_in_another_rounding_is_given_no_cause(mode: str) -> None:
    judged = Judged(conv())
    other = Simulator(replace_rounding(judged, mode))
    with mock.patch("qverify.triage.recorded_cause.find_recorded_cause") as search:
        report = judged.report(lambda board: board.after.update(as_simulated(other, judged)))
    assert report.blame is None and not search.called


def replace_rounding(judged: Judged, mode: str) -> Any:
    from qverify.compiler.compile_model import CompilerOptions, compile_model

    return compile_model(judged.quantized, "q.onnx", CompilerOptions(check=False, rounding=mode)).graph


def as_simulated(other: Simulator, judged: Judged) -> dict[str, Callable[[Array], Array]]:
    tensors = other.run(prepared_inputs(judged.compiled.graph, InputRequest(seed=5))).tensors
    return {"y_q": lambda _: np.asarray(tensors["y_q"])}


def test_a_fault_beside_another_rounding_leaves_few_elements() -> None:
    judged = Judged(conv())
    other = Simulator(replace_rounding(judged, "gemmlowp"))
    graph = other.graph
    bias = next(n for n in graph.nodes[-2].inputs if n in graph.constants and graph.constants[n].dtype == np.int32)
    graph.constants[bias] = np.zeros_like(graph.constants[bias])
    report = judged.report(lambda board: board.after.update(as_simulated(Simulator(graph), judged)))
    assert report.blame is not None and report.blame.cause is not None
    assert "bias left out" in report.blame.cause.causes[0]


def test_a_fault_of_no_more_than_a_rounding_may_leave_few_elements() -> None:
    """All differences are 1 LSB, so that no element is far off; one of them is the board's own rounding."""
    m = conv()
    name = next(n for n in m.constants if n.endswith("_i32"))
    m.constants[name] = m.constants[name] // 6

    def change(board: Board) -> None:
        constant("_i32", np.zeros_like)(board)
        shown(lambda y: put(y.copy(), (0, 5, 6, 7), y[0, 5, 6, 7] - 1))(board)

    blame = Judged(m).report(change).blame
    assert blame is not None and "up to 1 LSB" in blame.why and blame.cause is not None, blame
    assert blame.cause.causes[0] == "bias left out" and blame.cause.left == 1 and not blame.cause.unpredicted


def test_an_output_of_the_frame_before_is_named_in_the_second_frame() -> None:
    judged = Judged(conv())
    kept: list[Array] = []
    judged.report(shown(lambda y: kept.append(y) or y), seed=5)
    report = judged.report(shown(lambda _: kept[0]), seed=6, frame=1)
    assert report.blame is not None and report.blame.cause is not None
    assert report.blame.cause.frame == 1
    assert "stale buffer: the output is the previous frame's tensor" in report.blame.cause.line


def test_a_node_is_searched_until_it_is_named_and_at_most_twice() -> None:
    judged = Judged(conv())
    with mock.patch("qverify.triage.recorded_cause.find_recorded_cause", return_value=None) as search:
        for frame in range(4):
            judged.report(FAULTS["all biases"][1], seed=frame, frame=frame)
    assert search.call_count == recorded_causes.MOST_AT_NODE
    judged = Judged(conv())
    named = [judged.report(FAULTS["all biases"][1], seed=frame, frame=frame).blame for frame in range(3)]
    assert [blame is not None and blame.cause is not None for blame in named] == [True, False, False]


def test_nothing_is_searched_of_a_right_board_or_of_qvrt() -> None:
    judged = Judged(conv())
    with mock.patch("qverify.triage.recorded_cause.find_recorded_cause") as search:
        assert judged.report(None).verdict == "PASSED"
        board = Recording("board", "qvrt")
        report = mock.Mock(blamed=[Blame("board", "y_q", "")], pairs=[])
        evidence = mock.Mock(recordings={"board": board}, graph=judged.compiled.graph)
        judged.causes.add(report, evidence)
    assert not search.called


def test_an_output_of_too_many_elements_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_causes, "MOST_ELEMENTS", 1151)
    with mock.patch("qverify.triage.recorded_cause.find_recorded_cause", return_value=None) as search:
        assert Judged(conv()).report(FAULTS["all biases"][1]).blame is not None
        assert not search.called
        monkeypatch.setattr(recorded_causes, "MOST_ELEMENTS", 1152)
        Judged(conv()).report(FAULTS["all biases"][1])
    assert search.called


def test_a_region_has_no_cause() -> None:
    judged = Judged(conv())
    unit = units(judged.compiled.graph)[-1]
    blame = Blame("board", unit.name, "", region=mock.Mock())
    with mock.patch("qverify.triage.recorded_cause.find_recorded_cause") as search:
        recorded_causes.name_cause(blame, [], mock.Mock(graph=judged.compiled.graph))
    assert blame.cause is None and not search.called


def test_the_line_says_what_is_given_and_how_much_decides() -> None:
    cause = NamedCause("y", ["bias left out"], 0, 100, 40, 0, False, 300.4, 25.0)
    line = "cause: bias left out: gives every byte of all 100 elements; 40 elements differ and decide: 300 bits of evidence, 25 wanted"
    assert cause.line == line and cause.sentence == f"C{line[1:]}"
    some = replace(cause, causes=["a", "b"], more=2, left=3)
    assert some.line.startswith("cause: a; or b; or 2 more: give all but 3 of 100 elements, which are 1 LSB off; ")
    unknown = replace(cause, left=1, unpredicted=True, differing=1)
    assert "all but 1 of 100 elements, which nothing predicts; 1 element differs and decides" in unknown.line
    assert "gives its one element; 1 element differs and decides" in replace(cause, elements=1, differing=1).line


@pytest.mark.parametrize(
    ("low", "high", "number"),
    [(1.09, 1.12, 1.1), (0.499, 0.501, 0.5), (1.98, 2.03, 2.0), (0.101, 0.1018, 0.101), (120.0, 130.0, 120.0)],
)
def test_the_number_with_the_fewest_digits_is_chosen(low: float, high: float, number: float) -> None:
    assert choose_number(low, high) == number
