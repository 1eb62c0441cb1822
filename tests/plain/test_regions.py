"""What a board fuses is recomputed as one region between the tensors that it gives, and judged with the bound that is
carried through it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.compare.error_bounds.bounded_values import NoBound, Real
from qverify.compare.error_bounds.inner_tensors import Rule, Steps, allow_any, keep, round_as_model
from qverify.compare.error_bounds.region import _check_within, evaluate_region
from qverify.compare.error_bounds.table_ranges import TableRanges
from qverify.compare.options import Options
from qverify.compare.region_verdict import RecomputedRegion, _describe_choice, _list_alternatives
from qverify.compare.regions import Region, describe_region, find_steps, list_inner
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit, units
from qverify.renderers import pair_facts, summary_lines
from qverify.renderers.formats import junit, markdown
from qverify.renderers.html_page import page
from qverify.report.document import ReportDocument
from qverify.report.report_json import to_json
from qverify.report.schema import report_schema
from qverify.session.models import open_models
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq
from tests.plain.fused_boards import fused, judge_fused, residual
from tests.plain.three_sides import X, chain, record, spec, step, three, three_with, without, wrong_at

SHOWN = ["in0_q", "h_q", "s_q", "o_q"]  # not c_q, the convolution before the addition
PLACE = "between h_q, in0_q and s_q: conv c_q, add s_q, fused on the board"


@pytest.fixture(scope="module")
def block() -> Qdq:
    return residual()


def region_of(report: ReportDocument, pair: int = 2, name: str = "s_q"):
    return next(r.forced for r in report.pairs[pair].tensors if r.name == name)


def fusing(run):
    """Returns a board that gives no n1."""
    board = without(record("board", run), "n1", digests=False)
    del board.specs["n1"]
    return board


# --- which regions there are ---


def test_a_region_is_the_smallest_part_between_tensors_that_are_given():
    graph = chain()
    steps = find_steps(units(graph), graph, {"n2", "y"}.__contains__)
    assert [(s.name, s.inputs, s.outputs) for s in steps] == [("n2", ("x",), ("n2",)), ("y", ("n2",), ("y",))]
    assert isinstance(steps[0], Region) and [m.name for m in steps[0].members] == ["n1", "n2"]
    assert [n.name for n in steps[0].nodes] == ["n1", "n2"] and list_inner(steps[0]) == ["n1"]
    assert not isinstance(steps[1], Region)


def test_a_board_that_gives_every_tensor_has_no_region():
    graph = chain()
    assert find_steps(units(graph), graph, lambda name: True) == units(graph)


def test_a_board_that_gives_only_final_outputs_has_no_region():
    """It would be the whole network, and nothing were located."""
    graph = chain()
    assert find_steps(units(graph), graph, {"y"}.__contains__) == []
    report = three(board=wrong_at("n2"), board_caps=frozenset({"finals", "digests"}))
    assert report.blame is None and report.pairs[2].cause == "unlocated"


def test_two_tensors_share_what_is_inside():
    graph = chain()
    graph.nodes.append(replace(graph.nodes[1], name="z", outputs=("z",)))  # reads n1, as n2 does
    graph.tensors["z"] = spec("z")
    steps = find_steps(units(graph), graph, {"n2", "y", "z"}.__contains__)
    assert [[n.name for n in s.nodes] for s in steps] == [["n1", "n2"], ["y"], ["n1", "z"]]


def place_without_n1(missing: str = "") -> str:
    """Returns where a fault of n1 is blamed, which the board does not give. missing: why it could not be used."""
    graph = chain()
    board = fusing(wrong_at("n1"))
    board.missing |= {"n1": missing} if missing else {}
    sides = {"reference": record("reference"), "simulator": record("simulator"), "board": board}
    runs = {"reference": step, "simulator": step}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, {"x": X})
    return report.blame.place


def test_only_what_a_board_could_have_given_is_called_fused() -> None:
    nodes = "between x and n2: add n1, add n2"
    assert place_without_n1() == f"{nodes}, fused on the board"
    assert place_without_n1(missing="no file of it among those that the runner wrote") == f"{nodes}, fused on the board"
    assert place_without_n1(missing="n1.bin: 39 bytes do not fit int8[40]") == f"{nodes}, n1 not usable"


def test_a_tensor_that_the_compiler_made_is_not_fused() -> None:
    graph = chain()
    for made, place in (((), ", fused on the board"), (("n1",), "")):
        steps = find_steps(units(graph), graph, {"n2", "y"}.__contains__, made=made)
        assert describe_region(steps[0], "board").place == f"between x and n2: add n1, add n2{place}"


def test_outputs_of_one_node_are_not_fused() -> None:
    graph = chain()
    graph.nodes[1] = replace(graph.nodes[1], outputs=("n2", "m"))
    graph.tensors["m"] = spec("m")
    (part,) = [s for s in find_steps(units(graph), graph, {"n1", "n2", "y"}.__contains__) if isinstance(s, Region)]
    assert describe_region(part, "board").place == "between n1 and n2: add n2"


# --- a board that runs the same arithmetic: equal bytes ---


def test_a_fault_inside_is_blamed_between_the_tensors_of_the_board():
    report = three_with(fusing(wrong_at("n1")))
    assert (report.verdict, report.blame.side, report.blame.node) == ("FAILED", "board", "n2")
    assert report.blame.place == "between x and n2: add n1, add n2, fused on the board"
    assert report.pairs[2].cause == "region" and report.pairs[2].first_divergence.region == report.blame.region
    assert not any("could not be forced" in note for pair in report.pairs for note in pair.notes)


def test_a_fault_after_a_region_is_blamed_at_its_node():
    report = three_with(fusing(wrong_at("y")))
    assert (report.blame.place, report.blame.region, report.pairs[2].cause) == ("at y", None, "node")


def test_a_compiler_that_is_wrong_inside_is_blamed_at_its_node_and_not_the_board():
    sides = {"reference": record("reference", wrong_at("n1")), "simulator": record("simulator")}
    sides["board"] = fusing(step)
    graph = chain()
    runs = {"reference": wrong_at("n1"), "simulator": step}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, {"x": X})
    assert [(b.side, b.place) for b in report.blamed] == [("compiler", "at n1")]
    assert report.pairs[2].verdict == "PASSED"


# --- a board that rounds in its own way ---


@pytest.mark.parametrize("kind", ["none", "model"])
def test_a_board_that_fuses_without_the_inner_rounding_is_right(block: Qdq, kind: str) -> None:
    report = judge_fused(block, fused(block.model(), {"c": kind}), SHOWN)
    assert report.blame is None and region_of(report).verdict == "PASSED"
    if kind == "none":
        limit = region_of(report).limit
        assert region_of(report).mismatched and "the region with inner tensors not rounded" in limit
        assert report.pairs[2].cause == "accumulated_rounding"


def test_a_board_that_fuses_one_of_two_hidden_tensors_is_right(block: Qdq) -> None:
    """h is not shown, but rounded; c is fused with the addition."""
    report = judge_fused(block, fused(block.model(), {"c": "none"}), ["in0_q", "s_q", "o_q"])
    verdict = region_of(report)
    assert verdict.verdict == "PASSED" and re.search(
        r"c_q not rounded, other inner tensors as in the model(, up to ties at \d+ elements?)?$", verdict.limit
    )


def test_elements_that_an_alternative_leaves_open_are_in_its_limit() -> None:
    """One of 4 elements may have two values."""
    graph = replace(chain(), tensors={**chain().tensors})
    region = RecomputedRegion(units(graph)[0], "n1", graph, {}, np.zeros(4), np.zeros(4, np.int8), 0.0)
    assert _describe_choice(region, (np.zeros(4), np.zeros(4))) == ""
    assert _describe_choice(region, (np.zeros(4), np.array([0.0, 1, 0, 0]))) == ", up to ties at 1 element"
    floats = replace(region, recorded=np.zeros(4, np.float32))
    assert _describe_choice(floats, (np.zeros(4), np.full(4, 0.5))) == ", within 0.25"


def test_a_board_that_rounds_every_tensor_down_is_right(block: Qdq) -> None:
    half = {"s": -0.5 * float(block.constants["s_scale"])}
    report = judge_fused(block, fused(block.model(), {"h": "down", "c": "down"}, half), ["in0_q", "s_q", "o_q"])
    assert region_of(report).verdict == "PASSED" and "rounded down" in region_of(report).limit


@pytest.mark.parametrize("by", [-3, 1, 3])
def test_one_step_too_high_everywhere_is_no_rounding(block: Qdq, by: int) -> None:
    model = fused(block.model(), {"c": "none"}, {"s": by * float(block.constants["s_scale"])})
    report = judge_fused(block, model, SHOWN)
    assert (report.verdict, report.blame.side, report.blame.place) == ("FAILED", "board", PLACE)
    assert report.pairs[2].cause == "region" and "recomputed as one" in report.blame.why


def test_what_a_bias_inside_moves_to_one_side_is_no_rounding() -> None:
    """All of it lies within the carried bound."""
    block = residual(1)
    model = fused(block.model(), {"h": "none"}, {"c": 0.6 * float(block.constants["c_scale"])})
    report = judge_fused(block, model, ["in0_q", "s_q", "o_q"])
    verdict = region_of(report)
    assert verdict.verdict == "FAILED" and "on one side" in verdict.why and "beyond" not in verdict.why
    assert report.blame.place == "between in0_q and s_q: conv h_q, conv c_q, add s_q, fused on the board"


def test_a_bound_of_several_steps_acquits_nothing() -> None:
    """Rounded down inside and to the nearest at the end: none of the certain arithmetics, and the bound would hide whole
    steps of errors."""
    report = judge_fused(residual(1), fused(residual(1).model(), {"h": "down", "c": "down"}), ["in0_q", "s_q", "o_q"])
    verdict = region_of(report)
    assert verdict.verdict == "INCONCLUSIVE" and verdict.mismatched and verdict.max_lsb > 1
    assert verdict.limit == "up to 12 LSB, carried from 2 roundings inside"
    assert "no rounding of its inner tensors that was tried gives them; the carried bound is too wide" in verdict.why
    assert re.search(r"nearest: [^;]+, all but \d+ elements?, by up to \d LSB", verdict.why)
    assert (report.blame, report.pairs[2].cause, report.verdict) == (None, "unlocated", "FAILED")
    facts = "\n".join(pair_facts.describe(report.pairs, False))
    assert (
        "could not be forced: between in0_q and s_q: conv h_q, conv c_q, add s_q, fused on the board: "
        f"{verdict.mismatched} elements differ"
    ) in facts


@pytest.mark.parametrize(
    ("steps", "side"), [({2: 1}, "too high"), ({2: 1, 5: -1}, "on one side in each")], ids=["one", "two"]
)
def test_wrong_channels_of_a_region_are_found_within_the_bound(block: Qdq, steps: dict[int, int], side: str) -> None:
    """All of it lies within the carried bound, whatever the rounding inside."""
    biases = np.zeros((1, 8, 1, 1), np.float32)
    for channel, by in steps.items():
        biases[0, channel] = by
    for kind in ("model", "none"):
        model = fused(block.model(), {"c": kind}, {"c": biases * float(block.constants["c_scale"])})
        report = judge_fused(block, model, SHOWN)
        verdict = region_of(report)
        assert (verdict.verdict, report.blame.place, report.pairs[2].cause) == ("FAILED", PLACE, "region")
        channels = ", ".join(map(str, steps))
        assert f"{side} (" in verdict.why and re.search(rf"channels? {channels} of 8\)", verdict.why)
        assert "while every other is that of the region with inner tensors" in verdict.why


def test_an_inner_tensor_and_what_it_is_moved_into_are_rounded_alike() -> None:
    """a is only moved into m: one of them cannot be rounded and the other not."""
    names, table = ("x", "a", "m", "b", "y"), np.arange(-128, 128, dtype=np.int8)
    specs = {n: TensorSpec(n, "int8", (16,), scale=(0.05,), zero_point=(0,)) for n in names}
    specs["t"] = TensorSpec("t", "int8", (256,))
    nodes = [Node(y, "lookup", (x, "t"), (y,)) for x, y in (("x", "a"), ("m", "b"), ("b", "y"))]
    nodes.insert(1, Node("m", "reshape", ("a",), ("m",)))
    graph = Graph(nodes, specs, {"t": table}, ("x",), ("y",))
    part = Region("y", "lookup", tuple(nodes), ("x",), ("y",), True, tuple(units(graph)))
    region = RecomputedRegion(part, "y", graph, {}, np.zeros(16, np.int8), np.zeros(16, np.int8), 0.0)
    kept = [text.split(" not")[0] for text, _ in _list_alternatives(region) if "other inner" in text]
    assert kept == ["a", "b"]


def test_without_a_bound_nothing_is_said(monkeypatch: pytest.MonkeyPatch, block: Qdq) -> None:
    from qverify.compare import region_verdict

    def refuse(*_: object) -> None:
        raise NoBound("a recurrence")

    monkeypatch.setattr(region_verdict, "evaluate_region", refuse)
    report = judge_fused(block, fused(block.model(), {"c": "none"}), SHOWN)
    verdict = region_of(report)
    assert verdict.verdict == "INCONCLUSIVE" and "no bound can be carried through a recurrence" in verdict.why
    assert report.blame is None and report.pairs[2].cause == "unlocated" and report.verdict == "FAILED"


def test_a_bound_that_does_not_contain_our_own_value_blames_nobody(monkeypatch: pytest.MonkeyPatch, block: Qdq) -> None:
    from qverify.compare import region_verdict

    real = region_verdict.evaluate_region

    def shifted(*arguments: object) -> Steps:
        value = real(*arguments)
        return replace(value, real=Real(value.real.value + 40, value.real.error))

    monkeypatch.setattr(region_verdict, "evaluate_region", shifted)
    verdict = region_of(judge_fused(block, fused(block.model(), {"c": "none"}), SHOWN))
    assert verdict.verdict == "INCONCLUSIVE" and "does not contain what simulator computes" in verdict.why


def test_a_wide_bound_excuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from qverify.compare import region_verdict

    monkeypatch.setattr(region_verdict, "WIDEST", 0.5)
    report = judge_fused(residual(1), fused(residual(1).model(), {"h": "down", "c": "down"}), ["in0_q", "s_q", "o_q"])
    verdict = region_of(report)
    assert verdict.verdict == "INCONCLUSIVE" and "too wide" in verdict.why and report.verdict == "FAILED"


# --- operators inside of a region ---


@pytest.mark.parametrize(
    "op", ["Sigmoid", "MaxPool", "AveragePool", "Concat", "Transpose", "Softmax", "Mul", "Pad", "Resize"]
)
def test_operators_are_carried_through(op: str) -> None:
    """The board keeps what it fuses in floats: right as it is, and a finding three steps away."""
    m = Qdq("uint8", seed=4)
    x = m.input((1, 4, 8, 8))
    a = m.quantize(m.op("Conv", [x, m.weight((4, 4, 3, 3), axis=0)], "a", pads=[1] * 4))
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    attrs = {"MaxPool": window, "AveragePool": window, "Concat": {"axis": 1}, "Transpose": {"perm": [0, 2, 3, 1]}}
    more = {"Concat": [x], "Mul": [x], "Softmax": []}.get(op, [])
    if op == "Pad":
        more = [m.constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))]
    if op == "Resize":
        more = ["", m.constant("factors", np.array([1, 1, 2, 2], np.float32))]
    attrs |= {"Softmax": {"axis": -1}, "Resize": {"mode": "linear"}}
    y = m.quantize(m.op(op, [a, *more], "y", **attrs.get(op, {})))
    m.outputs.append(m.quantize(m.op("Relu", [y], "o")))
    board = fused(m.model(), {"a": "none"})
    right = region_of(judge_fused(m, board, ["in0_q", "y_q", "o_q"]), name="y_q")
    assert right.verdict == "PASSED" and right.region is not None, right
    wrong = judge_fused(m, board, ["in0_q", "y_q", "o_q"], {"y_q": 3})
    assert region_of(wrong, name="y_q").verdict == "FAILED" and wrong.blame.region is not None


def test_inner_tensors_may_be_clipped_or_not_but_a_relu_is_part_of_the_network():
    of = TensorSpec("t", "uint8", (3,), scale=(1.0,), zero_point=(10,))
    exact = Real(np.array([-20.0, 100.25, 300.0]), np.zeros(3))
    whole, relu = Steps(exact, (0, 255), of), Steps(exact, (10, 255), of)
    low, high = allow_any(exact.value, exact.value, whole)
    assert low.tolist() == [-21, 99.25, 255] and high.tolist() == [0, 101.25, 301]
    low, high = allow_any(exact.value, exact.value, relu)
    assert low.tolist() == [10, 99.25, 255] and high.tolist() == [10, 101.25, 301]
    assert keep(exact.value, exact.value, relu)[0].tolist() == [10, 100.25, 300]
    assert round_as_model(exact.value, exact.value, whole)[0].tolist() == [0, 100, 255]


def test_ranges_of_a_table_are_those_of_every_entry_between():
    rng = np.random.default_rng(0)
    table = rng.normal(size=256)
    first = rng.integers(0, 256, 500)
    last = np.minimum(first + rng.integers(0, 256, 500), 255)
    low, high = TableRanges(table).between(first, last)
    assert low.tolist() == [table[a : b + 1].min() for a, b in zip(first, last, strict=True)]
    assert high.tolist() == [table[a : b + 1].max() for a, b in zip(first, last, strict=True)]


def looked_up(rule: Rule, change_only: bool = False, known: bool = False) -> tuple[list[float], list[float]]:
    """Returns the values and errors, in steps, of a lookup behind a recorded tensor. Its table is that of a sine, or one
    that only changes the quantization."""
    every = np.arange(256) / 2 if change_only else 100 * np.sin(np.arange(256) / 3)
    specs = {
        "x": TensorSpec("x", "uint8", (3,), scale=(0.5,), zero_point=(0,)),
        "y": TensorSpec("y", "int8", (3,), scale=(1.0,), zero_point=(-20,)),
        "table": TensorSpec("table", "int8", (256,)),
    }
    constants = {"table": np.clip(np.rint(every) - 20, -128, 127).astype(np.int8)}
    graph = Graph([Node("y", "lookup", ("x", "table"), ("y",))], specs, constants, ("x",), ("y",))
    graph.real_tables = {"y": lambda: every} if known else {}
    made = evaluate_region(units(graph)[0], "y", graph, {"x": np.array([0, 7, 255], np.uint8)}, rule)
    assert isinstance(made, Steps) and made.limits == (-128, 127)
    return made.real.value.tolist(), made.real.error.tolist()


def test_a_table_is_that_of_its_function_where_this_is_known() -> None:
    """Else its entries count, and may be rounded otherwise; of a function that is not known nothing is said."""
    sine = [100 * np.sin(at / 3) for at in (0, 7, 255)]
    for rule in (allow_any, keep):
        assert looked_up(rule, known=True) == (pytest.approx([v - 20 for v in sine]), [0, 0, 0])
    assert looked_up(keep) == ([round(v) - 20 for v in sine], [0, 0, 0])
    with pytest.raises(NoBound, match=r"^the table of a function$"):
        looked_up(allow_any)
    assert looked_up(allow_any, change_only=True) == ([-20, -16, 108], [0.5, 0.5, 0.5])
    assert looked_up(keep, change_only=True) == ([-20, -16, 108], [0, 0, 0])


def test_nothing_is_known_of_a_function_beyond_its_table() -> None:
    """An input that a board does not clip to its range, but by a rounding, or where the table is level."""
    level, rising = np.array([0.0, 0, 1, 2, 2]), np.arange(5.0)
    for low, high in ((-9, 2), (1, 99), (-2, 6)):
        _check_within(level, np.array([low]), np.array([high]))
    _check_within(rising, np.array([-2]), np.array([6]))
    for low, high in ((-9, 2), (1, 99)):
        with pytest.raises(NoBound, match="a function of values beyond its table"):
            _check_within(rising, np.array([low]), np.array([high]))


def test_a_table_is_read_wherever_its_index_may_be() -> None:
    """A lookup inside that may be rounded by 0.5 in its table and by 1 after it: 1.5 to either side, within the type."""
    shift = np.clip(np.arange(-128, 128) * 2 + 1, -128, 127)
    sine = 100 * np.sin(np.arange(256) / 3)
    x = np.array([-128, -64, -20, 0, 40, 62, 127], np.int8)
    specs = {
        "x": TensorSpec("x", "int8", x.shape, scale=(1.0,), zero_point=(0,)),
        "t": TensorSpec("t", "int8", x.shape, scale=(0.5,), zero_point=(1,)),
        "y": TensorSpec("y", "int8", x.shape, scale=(1.0,), zero_point=(-20,)),
        "first": TensorSpec("first", "int8", (256,)),
        "second": TensorSpec("second", "int8", (256,)),
    }
    constants = {"first": shift.astype(np.int8), "second": np.rint(sine).astype(np.int8)}
    nodes = [Node("t", "lookup", ("x", "first"), ("t",)), Node("y", "lookup", ("t", "second"), ("y",))]
    graph = Graph(nodes, specs, constants, ("x",), ("y",))
    graph.real_tables = {"y": lambda: sine}
    unit = Unit("y", "lookup+lookup", tuple(nodes), ("x",), ("y",), True)
    made = evaluate_region(unit, "y", graph, {"x": x}, allow_any)
    assert isinstance(made, Steps)
    ends = [(max(t + 128 - 2, 0), min(t + 128 + 2, 255)) for t in shift[x.astype(int) + 128].tolist()]
    parts = [sine[a : b + 1] - 20 for a, b in ends]
    assert np.allclose(made.real.value - made.real.error, [p.min() for p in parts], rtol=0, atol=1e-9)
    assert np.allclose(made.real.value + made.real.error, [p.max() for p in parts], rtol=0, atol=1e-9)


# --- what is shown ---


def test_every_format_shows_the_region(block: Qdq, tmp_path: Path) -> None:
    report = judge_fused(block, fused(block.model(), {"c": "none"}), SHOWN, {"s_q": 3})
    document = json.loads(json.dumps(to_json(report), allow_nan=False))
    jsonschema.validate(document, report_schema())
    assert document["blame"]["region"] == {
        "inputs": ["h_q", "in0_q"],
        "outputs": ["s_q"],
        "nodes": ["conv c_q", "add s_q"],
        "side": "board",
        "not_given": ["c_q"],
        "refused": [],
    }
    junit.write(report, str(tmp_path / "r.xml"))
    assert PLACE in (tmp_path / "r.xml").read_text()
    assert PLACE.replace("_", "\\_") in markdown.text(report)
    assert any(f"blame: board {PLACE}" in line for line in summary_lines.summary_lines(report))
    assert PLACE in page.render(report)


def test_the_names_that_the_compiler_made_are_known(tmp_path: Path) -> None:
    """A max-pool before the quantizer is computed on integers that have no name in the file."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["p_q"]),
        helper.make_node("DequantizeLinear", ["p_q", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xy"]
    ends[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
    constants = [
        helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]),
        helper.make_tensor("z", TensorProto.INT8, [], [0]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    models = open_models([str(tmp_path / "m.onnx")])
    computed = {"p", "p_q", "y", "x"}
    assert models.onnx_names.made == {n for n in models.graph.observable() if n not in computed}
