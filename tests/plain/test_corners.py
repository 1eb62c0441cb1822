"""Where a board does not follow its form: the part of all tensors is named, and nothing is where too little shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import TWICE_HALF_UP
from qverify.compare.identify.fit import RecordedUnit, collect
from qverify.compare.probing.contradictions import describe_contradiction, describe_few
from qverify.compare.probing.corners import Corner, find_corner
from qverify.compare.probing.explain import explain_nodes
from qverify.compare.probing.parts import Mask, Places, join_names
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.units import units
from qverify.report.learned import LearnedOp
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq

FLOOR = "rounded down (floor)"


@pytest.fixture(scope="module")
def convolutions() -> list[RecordedUnit]:
    """Six convolutions of other sizes, of two images, as the reference computes them."""
    m = Qdq("int8", seed=5)
    x = m.input((2, 6, 13, 11))
    a = m.quantize(m.op("Conv", [x, m.weight((10, 6, 3, 3), axis=0)], "a", pads=[1] * 4))
    b = m.quantize(m.op("Conv", [a, m.weight((21, 10, 1, 1), axis=0)], "b"))
    for k, channels in enumerate((8, 9, 7)):
        m.outputs.append(m.quantize(m.op("Conv", [x, m.weight((channels, 6, 3, 3), axis=0)], f"d{k}", strides=[2, 2])))
    m.outputs.append(m.quantize(m.op("Conv", [b, m.weight((9, 21, 3, 3), axis=0)], "c", strides=[2, 2])))
    return run(m)


def run(m: Qdq) -> list[RecordedUnit]:
    """Returns the convolutions of a model as the reference computes them, on random inputs."""
    graph = compile_model(m.model().SerializeToString(), "m.onnx", CompilerOptions(check=False)).graph
    simulator, random = Simulator(graph, None), np.random.default_rng(3)
    values: dict[str, Any] = {n: random.normal(0, 1, graph.spec(n).shape).astype(np.float32) for n in graph.inputs}
    values = {n: v if graph.spec(n).dtype == "float32" else v.astype(graph.spec(n).dtype) for n, v in values.items()}
    for unit in units(graph):
        values |= simulator.run_unit(unit, {n: values[n] for n in unit.inputs})
    found = collect(units(graph), graph, lambda n: graph.constants.get(n, values.get(n)), simulator.run_unit)
    return [m for m in found if m.unit.nodes[0].op == "conv"]


def spoil(members: list[RecordedUnit], part: Callable[[Places], Mask]) -> list[RecordedUnit]:
    """Returns the units of a chip that rounds down in a part of each tensor."""
    return [
        replace(m, recorded=np.where(part(Places(m)), m.compute(FLOOR), m.made).astype(m.made.dtype)) for m in members
    ]


def sums(p: Places) -> Any:
    assert p.triples is not None
    return p.triples.acc.reshape(p.shape)


def mantissas(p: Places) -> Any:
    assert p.scales is not None
    return np.frexp(p.scales)[0].reshape(p.shape)


def tail(p: Places, vector: int, last: int | None = None) -> Any:
    """Returns the end of a tensor that is one run, with this axis as the last."""
    order = np.moveaxis(np.zeros(p.shape, bool), last, -1) if last is not None else np.zeros(p.shape, bool)
    flat = np.ascontiguousarray(order).reshape(-1)
    flat[flat.size // vector * vector :] = True
    made = flat.reshape(order.shape)
    return np.moveaxis(made, -1, last) if last is not None else made


def plane_tail(p: Places, vector: int) -> Any:
    place = np.arange(p.shape[2] * p.shape[3]).reshape(p.shape[2:])
    return np.broadcast_to(place >= place.size // vector * vector, p.shape)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (lambda p: p.along(3, np.arange(p.shape[3]) == p.shape[3] - 1) & bool(p.shape[3] % 2), "the last column"),
        (lambda p: p.along(1, np.arange(p.shape[1]) == 5), "channel 5"),
        (lambda p: p.along(1, np.arange(p.shape[1]) >= p.shape[1] // 4 * 4), "the channels beyond whole vectors of 4"),
        (lambda p: p.along(0, np.arange(2) > 0), "batch items after the first"),
        (lambda p: sums(p) < 0, "negative sums"),
        (lambda p: tail(p, 8), "the elements of the tensor beyond whole vectors of 8"),
        (lambda p: tail(p, 16, last=1), "the elements of the tensor with channels last beyond whole vectors of 16"),
        (lambda p: plane_tail(p, 4), "the elements of each plane beyond whole vectors of 4"),
        (lambda p: np.abs(sums(p)) >= 1 << 13, "sums of 2^13 or more in magnitude"),
        (lambda p: mantissas(p) < 0.625, "scales whose mantissa is between 0.5 and 0.625"),
        (lambda p: p.whole(p.kernel == (1, 1)), "1x1 kernels"),
        (lambda p: p.whole(p.member.recorded.size > 5000), "outputs of more than 2860 elements"),
    ],
)  # fmt: skip
def test_the_part_is_named(convolutions: list[RecordedUnit], part: Callable[[Places], Mask], name: str) -> None:
    corner = find_corner(spoil(convolutions, part), solved=False)
    assert corner is not None and name in corner.part
    assert (corner.form, corner.inside) == ("ref-exact", FLOOR)
    assert str(corner) == f"ref-exact gives every element outside {corner.part}, {FLOOR} inside"


def test_windows_that_touch_the_padding(convolutions: list[RecordedUnit]) -> None:
    def border(p: Places) -> Mask:
        if p.shape[1] != 10:
            return p.whole(False)
        inner = [(np.arange(n) > 0) & (np.arange(n) < n - 1) for n in p.shape[2:]]
        return ~(p.along(2, inner[0]) & p.along(3, inner[1]))

    corner = find_corner(spoil(convolutions, border), solved=False)
    assert corner is not None and corner.part == "windows that touch the padding"


def test_single_elements_are_no_corner(convolutions: list[RecordedUnit]) -> None:
    """Elements anywhere lie in no part; two lie in a small one by chance."""
    for many in (1, 2, 40):
        random = np.random.default_rng(many)
        at = {i: random.choice(m.made.size, many, replace=False) for i, m in enumerate(convolutions)}
        noisy = []
        for i, m in enumerate(convolutions):
            flat = m.made.reshape(-1).copy()
            some = at[i] if many > 2 or not i else at[i][:0]
            flat[some] = np.bitwise_xor(flat[some], 1)
            noisy.append(replace(m, recorded=flat.reshape(m.made.shape)))
        corner: Corner | None = find_corner(noisy, solved=False)
        assert corner is None, (many, corner)
        said = describe_few(noisy)
        assert ("ref-exact gives all but " in said and "in no part of the tensors" in said) == (many < 40), said


def test_equal_sums_with_other_integers_are_a_contradiction(convolutions: list[RecordedUnit]) -> None:
    assert describe_contradiction(convolutions) == ""
    flat = convolutions[0].made.reshape(-1).copy()
    flat[::2] = np.bitwise_xor(flat[::2], 1)
    said = describe_contradiction([replace(convolutions[0], recorded=flat.reshape(convolutions[0].made.shape))])
    assert "the same sum and scale give different integers (" in said and "not deterministic" in said


def test_a_solved_form_is_none_where_two_of_the_catalogue_explain_as_much(convolutions: list[RecordedUnit]) -> None:
    def round_signs(m: RecordedUnit) -> RecordedUnit:
        negative = sums(Places(m)) < 0
        return replace(m, recorded=np.where(negative, m.compute("cut off (toward zero)"), m.made).astype(m.made.dtype))

    members = [round_signs(m) for m in convolutions]
    form = "half up, multiplier of 31 bits, 1 fraction bit kept first (toward zero)"
    op = explain_nodes(LearnedOp("conv", form, 6, 9, 20, "half up", (), held_out=9), members)
    assert op.form == "" and op.held_out is None
    assert "ref-exact gives every element outside negative sums, cut off (toward zero) inside" in op.why
    assert op.why.endswith(f"; or one form: {form}")
    plain = LearnedOp("conv", "half up, multiplier of 12 bits", 6, 9, 20, "half up", (), held_out=9)
    assert explain_nodes(plain, members) == plain
    named = LearnedOp("conv", TWICE_HALF_UP, 6, 9, 20, "half up", (), held_out=9)
    assert explain_nodes(named, members) == named


def test_parts_that_hold_the_same_elements_are_all_named(convolutions: list[RecordedUnit]) -> None:
    names = ["the last column of an odd number of columns", "the columns beyond whole vectors of 8"]
    names += ["the columns beyond whole vectors of 4, or fewer", "column 8"]
    said = "the last column of an odd number of columns or the columns beyond whole vectors of 4, or beyond whole vectors of 8"
    assert join_names(names) == f"{said} or column 8"
    some = [m for m in convolutions if m.recorded.shape[3] == 11]
    corner = find_corner(spoil(some, lambda p: p.along(3, np.arange(11) >= 8)), solved=False)
    assert corner is not None
    assert "the columns beyond whole vectors of 4, or beyond whole vectors of 8" in corner.part


def test_a_form_inside_a_part_is_solved(convolutions: list[RecordedUnit]) -> None:
    form = "half up, multiplier of 7 bits"
    last = [Places(m).along(3, np.arange(m.made.shape[3]) == m.made.shape[3] - 1) for m in convolutions]
    members = [
        replace(m, recorded=np.where(mask, m.compute(form), m.made).astype(m.made.dtype))
        for m, mask in zip(convolutions, last, strict=True)
    ]
    corner = find_corner(members, solved=False)
    assert corner is not None and (corner.part, corner.inside) == ("the last column", form)


def test_a_bias_that_saturates_is_named() -> None:
    some = biased()
    biases = np.concatenate([np.asarray(Places(m).biases).reshape(-1) for m in some])
    bits = int(np.percentile(biases, 60)).bit_length() - 1
    assert 0.1 < np.mean(biases >= 1 << bits) < 0.7
    corner = find_corner(spoil(some, lambda p: np.asarray(p.biases) >= 1 << bits), solved=False)
    assert corner is not None and f"biases of 2^{bits} or more in magnitude" in corner.part


def test_nodes_with_several_scales_are_a_part(convolutions: list[RecordedUnit]) -> None:
    several = [m for m in convolutions if Places(m).channel_scales.size > 1]
    members = [*spoil(several, lambda p: p.whole(True)), *biased(), *biased(9), *biased(11), *biased(13)]
    corner = find_corner(members, solved=False)
    assert corner is not None and "nodes with several scales" in corner.part


def biased(seed: int = 7) -> list[RecordedUnit]:
    """Two convolutions with biases and one scale each, as the reference computes them."""
    m = Qdq("int8", seed=seed)
    x = m.quantize(m.input((1, 6, 13, 11)))
    for channels in (16, 21):
        weight = m.weight((channels, 6, 3, 3))
        m.outputs.append(m.quantize(m.op("Conv", [x, weight, m.bias(x, weight, channels)])))
    return run(m)
