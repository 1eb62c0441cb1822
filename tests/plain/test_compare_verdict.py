"""Verdicts without any side: the peers' failures, capabilities, NaN, gates, forced verdicts, blame, the document."""

from __future__ import annotations

import itertools
import json
import math

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.blame import alone
from qverify.compare.criteria import GATES, MOST_DIGITS
from qverify.compare.options import Options
from qverify.compare.verdict import combine, judge_all
from qverify.errors import QVerifyError, UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.renderers import json_file, terminal, verdict_lines
from qverify.report.document import EXIT, to_json
from qverify.report.schema import report_schema
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

ALL = frozenset({"finals", "per_node", "inject", "digests"})
X = np.arange(40, dtype=np.int8)


def spec(name, dtype="int8", shape=(40,)):
    return TensorSpec(
        name, dtype, shape, scale=(0.5,) if dtype == "int8" else (), zero_point=(0,) if dtype == "int8" else ()
    )


def chain():
    """x -> n1 -> n2 -> y, each adding one."""
    names = ["x", "n1", "n2", "y"]
    nodes = [Node(b, "add", (a,), (b,), covers=(f"onnx_{b}",)) for a, b in itertools.pairwise(names)]
    return Graph(nodes, {n: spec(n) for n in names}, {}, ("x",), ("y",))


def step(unit, inputs):
    value = inputs[unit.inputs[0]]
    return {unit.outputs[0]: (value + 1).astype(np.int8)}


def wrong_at(node, by=1):
    def run(unit, inputs):
        made = step(unit, inputs)[unit.outputs[0]].copy()
        if unit.name == node:
            made[3] += by
        return {unit.outputs[0]: made}

    return run


def record(side, run=step, capabilities=ALL, graph=None, **extra):
    graph = graph or chain()
    values, held = {"x": X}, {}
    for unit in units(graph):
        values |= run(unit, values)
        held |= {o: values[o] for o in unit.outputs}
    offered = list(held) if "per_node" in capabilities else list(graph.outputs)
    held = {n: held[n] for n in offered}
    digests = {n: tensor_digest(v) for n, v in held.items()} if "digests" in capabilities else {}
    return Recording(
        side,
        "test",
        specs={n: graph.spec(n) for n in offered},
        finals=graph.outputs,
        tensors=held,
        digests=digests,
        capabilities=capabilities,
        **extra,
    )


def three(ref=step, sim=step, board=step, options=None, board_caps=ALL, **kwargs):
    graph = chain()
    sides = {
        "reference": record("reference", ref),
        "simulator": record("simulator", sim),
        "board": record("board", board, board_caps),
    }
    runs = {"reference": ref, "simulator": sim}
    return judge_all(sides, graph, units(graph), options or Options(dump_all=True), runs, None, {"x": X}, **kwargs)


def two(a, b, options=None, **kwargs):
    return judge_all({"reference": a, "board": b}, None, [], options or Options(dump_all=True), {}, None, **kwargs)


def floats(**tensors):
    arrays = {n: np.asarray(v, np.float32) for n, v in tensors.items()}
    specs = {n: TensorSpec(n, "float32", v.shape) for n, v in arrays.items()}
    return specs, arrays


def side(name, **tensors):
    specs, arrays = floats(**tensors)
    return Recording(name, "test", specs=specs, finals=tuple(arrays), tensors=arrays, capabilities=ALL)


def test_three_equal_sides_pass_and_say_what_was_compared():
    report = three()
    assert report.verdict == "PASSED" and report.exit_status == 0 and report.blame is None
    assert [(p.coverage.expected, p.coverage.compared, p.coverage.elements) for p in report.pairs] == [(3, 3, 120)] * 3
    assert verdict_lines.render(report).splitlines() == [
        "Quanti.onnx and Sim result Strict check PASSED",
        "Quanti.onnx and Arm result Strict check PASSED",
        "Sim and Arm result Strict check PASSED",
    ]


def test_no_pair_is_a_usage_error():
    for sides in ({}, {"board": record("board")}):
        with pytest.raises(UsageError):
            judge_all(sides, None, [], Options(), {}, None)
    with pytest.raises(UsageError):
        combine([])


def test_nothing_compared_never_passes():
    empty = Recording("reference", "test", capabilities=ALL), Recording("board", "test", capabilities=ALL)
    report = two(*empty)
    assert report.verdict == "INCONCLUSIVE" and "nothing was compared" in report.pairs[0].why
    assert two(side("reference", y=[]), side("board", y=[])).verdict == "INCONCLUSIVE"


def test_a_side_that_did_not_run_never_passes():
    report = two(side("reference", y=[1]), Recording("board", "test", state="did not run", why="no answer"))
    assert (
        report.verdict == "INCONCLUSIVE"
        and report.pairs[0].cause == "does_not_run"
        and "no answer" in report.pairs[0].why
    )
    broken = side("board", y=[1])
    broken.state, broken.why = "partial", "link lost"
    assert two(side("reference", y=[1]), broken).verdict == "INCONCLUSIVE"


@pytest.mark.parametrize("dump_all", [False, True])
def test_a_missing_final_output_never_passes(dump_all):
    options = Options(dump_all=dump_all)
    for a, b in (
        (side("reference", y=[1], z=[2]), side("board", y=[1])),
        (side("reference", y=[1]), side("board", y=[1], z=[2])),
    ):
        report = two(a, b, options)
        assert report.verdict == "INCONCLUSIVE" and report.pairs[0].coverage.missing[0].tensor == "z"


def test_a_declared_tensor_that_did_not_come_never_passes():
    board = record("board")
    board.tensors, board.digests = {"y": board.tensors["y"]}, {}
    board.missing = {"n1": "the board ran out of memory"}
    report = three_with(board)
    pair = next(p for p in report.pairs if p.b == "board")
    assert report.verdict == "INCONCLUSIVE" and {m.tensor for m in pair.coverage.missing} == {"n1", "n2"}
    assert "out of memory" in pair.coverage.missing[0].why


def three_with(board, pull=None, options=None):
    graph = chain()
    sides = {"reference": record("reference"), "simulator": record("simulator"), "board": board}
    return judge_all(
        sides,
        graph,
        units(graph),
        options or Options(dump_all=True),
        {"reference": step, "simulator": step},
        pull,
        {"x": X},
    )


def test_a_size_mismatch_fails():
    report = two(side("reference", y=[1, 2, 3]), side("board", y=[1, 2]))
    assert report.verdict == "FAILED" and "[3]" in report.pairs[0].why and "[2]" in report.pairs[0].why
    transposed = two(side("reference", y=[[1, 2, 3]]), side("board", y=[[1], [2], [3]]))
    assert transposed.verdict == "FAILED"


def test_bytes_other_than_the_spec_says_fail():
    board = side("board", y=[1, 2])
    board.tensors = {"y": np.array([1, 2], np.float64)}
    assert two(side("reference", y=[1, 2]), board).verdict == "FAILED"


def test_conv1_is_not_conv10():
    a, b = side("reference", y=[1], conv1=[5]), side("board", y=[1], conv10=[5])
    a.finals = b.finals = ("y",)
    pair = two(a, b).pairs[0]
    assert [r.name for r in pair.tensors] == ["y"] and {m.tensor for m in pair.coverage.not_offered} == {
        "conv1",
        "conv10",
    }
    a.finals, b.finals = ("conv1",), ("conv10",)
    assert two(a, b).verdict == "INCONCLUSIVE"


def test_every_output_is_compared_not_the_first_only():
    report = two(side("reference", a=[1], b=[1], c=[1]), side("board", a=[1], b=[1], c=[2]), Options())
    assert report.verdict == "FAILED" and report.pairs[0].coverage.compared == 3


def test_no_tensor_and_no_element_is_sampled():
    many = {f"t{i}": [i, i] for i in range(450)}
    for name in ("t1", "t224", "t449"):
        report = two(side("reference", **many), side("board", **(many | {name: [-1, -1]})))
        assert report.verdict == "FAILED" and report.pairs[0].coverage.compared == 450
    big, other = np.zeros(300_001), np.zeros(300_001)
    other[-1] = 1
    assert two(side("reference", y=big), side("board", y=other)).verdict == "FAILED"


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf])
def test_not_finite(wild):
    good, bad = [1.0, 2.0], [1.0, wild]
    assert two(side("reference", y=good), side("board", y=bad)).verdict == "FAILED"
    assert two(side("reference", y=bad), side("board", y=good), Options(nan_equal=True)).verdict == "FAILED"
    assert two(side("reference", y=bad), side("board", y=bad)).verdict == "INCONCLUSIVE"
    assert two(side("reference", y=bad), side("board", y=bad), Options(nan_equal=True)).verdict == "PASSED"


def test_nan_with_equal_digests_is_still_seen():
    a, b = side("reference", y=[1, np.nan]), side("board", y=[1, np.nan])
    for s in (a, b):
        s.digests = {n: tensor_digest(v) for n, v in s.tensors.items()}
    assert two(a, b).verdict == "INCONCLUSIVE"


def test_inf_of_other_sign_and_nan_elsewhere_fail():
    for x, y in (([np.inf], [-np.inf]), ([np.nan, 1], [1, np.nan]), ([np.nan], [np.inf])):
        assert two(side("reference", y=x), side("board", y=y), Options(nan_equal=True)).verdict == "FAILED"


def test_decimals_are_the_gate_of_other_pairs():
    a, b = side("reference", y=[1.0, 1.0]), side("board", y=[1.0004, 1.0])
    assert two(a, b).verdict == "FAILED"
    assert two(a, b, Options(digits=3, given=True)).verdict == "PASSED"
    assert two(a, b, Options(digits=3, rule="exact", given=True)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, given=True, atol=1e-6)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, given=True, min_cosine=1.0)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, given=True, max_rmse=1e-6)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, given=True, min_sqnr_db=500)).verdict == "FAILED"


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.option)
def test_a_gate_has_the_same_bounds_wherever_it_comes_from(gate, capsys):
    """Options are also read out of captures."""
    limits = [math.nan, math.inf, -math.inf]
    limits += [gate.lowest - 1e-9] if gate.lowest is not None else []
    limits += [gate.highest + 1e-9] if gate.highest is not None else []
    for limit in limits:
        with pytest.raises(UsageError, match=f"gate {gate.metric}: got .*, wanted {gate.wanted}"):
            Options(**{gate.option: limit})
        assert main(["compare", "a", "b", gate.flag, str(limit)]) == 2
        assert f"Invalid value for '{gate.flag}'" in capsys.readouterr().err
    assert Options(**{gate.option: 0.5}).gates == {gate.metric: 0.5}


def test_as_many_decimals_on_the_command_line_as_anywhere(capsys):
    assert Options(digits=MOST_DIGITS).digits == 17
    with pytest.raises(UsageError, match="wanted 0 to 17"):
        Options(digits=MOST_DIGITS + 1)
    assert main(["compare", "a", "b", "-c", "18"]) == 2 and "0<=x<=17" in capsys.readouterr().err


def test_digits_beyond_a_sides_precision_are_not_judged():
    a, b = side("reference", y=[1.0]), side("board", y=[1.0 + 2e-7])
    b.settings["precision"] = 6
    report = two(a, b, Options(digits=9, given=True))
    assert report.verdict == "PASSED" and "6 decimals" in report.pairs[0].gate


def test_simulator_and_board_are_held_to_bits_unless_a_gate_is_given():
    off = wrong_at("n2")
    pair = three(board=off).pairs[2]
    assert pair.verdict == "FAILED" and pair.gate == "bit equality"
    loose = three(board=off, options=Options(dump_all=True, given=True, max_lsb=1)).pairs[2]
    assert loose.verdict == "PASSED" and not loose.bit_equal and any("bit equality is lost" in n for n in loose.notes)
    assert "not bit-equal" in verdict_lines.line(loose)


def test_a_gate_that_applies_to_no_tensor_leaves_bit_equality():
    specs, arrays = floats(y=[1.0])
    _, others = floats(y=[1.5])
    sides = {
        n: Recording(n, "test", specs=specs, finals=("y",), tensors=t)
        for n, t in (("simulator", arrays), ("board", others))
    }
    assert judge_all(sides, None, [], Options(given=True, max_lsb=1), {}, None).verdict == "FAILED"


def test_a_difference_inside_is_seen_by_bits_even_when_the_outputs_agree():
    def healed(unit, inputs):
        made = wrong_at("n1")(unit, inputs)
        return {"n2": (X + 2).astype(np.int8)} if unit.name == "n2" else made

    report = three(board=healed, options=Options())
    assert report.verdict == "FAILED" and report.blame.node == "n1" and report.blame.side == "board"


@pytest.mark.parametrize("node", ["n1", "n2", "y"])
def test_the_side_that_is_alone_is_blamed_at_its_node(node):
    for kwargs, culprit in (
        ({"board": wrong_at(node)}, "board"),
        ({"ref": wrong_at(node)}, "compiler"),
        ({"sim": wrong_at(node)}, "simulator"),
    ):
        report = three(**kwargs)
        assert report.verdict == "FAILED" and (report.blame.side, report.blame.node) == (culprit, node)
        assert "up to 1 LSB" in report.blame.why
        failing = [p for p in report.pairs if p.verdict == "FAILED"]
        assert len(failing) == 2 and all(p.first_divergence.node == node and p.cause == "node" for p in failing)


def test_several_culprits_each_with_its_first_node():
    report = three(ref=wrong_at("n1"), board=wrong_at("y", 5))
    assert {(b.side, b.node) for b in report.blamed} == {("compiler", "n1"), ("board", "y")}


@pytest.mark.parametrize(
    ("states", "culprits"),
    [
        ((True, True, True), []),
        ((None, None, None), []),
        ((True, False, False), ["board"]),
        ((False, False, True), ["compiler"]),
        ((False, True, False), ["simulator"]),
        ((False, False, False), ["compiler", "board"]),
        ((None, None, False), ["board"]),
        ((False, None, None), ["compiler"]),
        ((None, False, None), ["board"]),
        ((True, True, False), ["board"]),
        ((True, False, None), ["board"]),
        ((None, False, True), ["compiler"]),
        ((False, None, True), ["compiler"]),
    ],
)
def test_blame_matrix(states, culprits):
    assert alone(*states) == culprits


def test_every_unit_within_one_lsb_is_accumulated_rounding():
    graph = chain()
    graph.rounding = "tflite-single"  # 1 LSB allowed against the reference
    off = lambda unit, inputs: {unit.outputs[0]: (step(unit, inputs)[unit.outputs[0]] + 1).astype(np.int8)}  # noqa: E731
    sides = {"reference": record("reference"), "simulator": record("simulator", off)}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), {"reference": step}, None, {"x": X})
    assert (report.verdict, report.blame, report.pairs[0].cause) == ("FAILED", None, "accumulated_rounding")
    assert [r.metrics["max_lsb"] for r in report.pairs[0].tensors] == [1, 2, 3]
    assert [r.forced.max_lsb for r in report.pairs[0].tensors] == [1, 1, 1]


def test_a_board_that_offers_finals_only():
    finals = frozenset({"finals"})
    report = three(board_caps=finals)
    pair = report.pairs[2]
    assert report.verdict == "PASSED" and [m.tensor for m in pair.coverage.not_offered] == ["n1", "n2"]
    assert (
        verdict_lines.line(pair)
        == "Sim and Arm result Strict check PASSED (final outputs only: the board offers no per-node dump)"
    )
    bad = three(board=wrong_at("n1"), board_caps=finals)
    assert bad.verdict == "FAILED" and bad.blame is None and bad.pairs[2].cause == "unlocated"
    assert "the board is alone" in bad.notes[0]


def test_only_what_differs_is_pulled_and_what_comes_is_checked():
    good, whole = record("board"), record("board", wrong_at("n2"))
    asked = []

    def pull(names):
        asked.extend(names)
        return {n: whole.tensors[n] for n in names}

    board = record("board", wrong_at("n2"))
    board.tensors = {"y": board.tensors["y"]}
    report = three_with(board, pull)
    assert report.blame.node == "n2" and asked == ["n2"]
    lying = record("board", wrong_at("n2"))
    lying.tensors = {"y": good.tensors["y"]}
    lying.digests["y"] = good.digests["y"]
    report = three_with(lying, lambda names: {n: good.tensors[n] for n in names})
    assert report.verdict == "INCONCLUSIVE" and "digest" in report.pairs[1].why

    class LinkDown(QVerifyError):
        exit_status = 3

    def broken(names):
        raise LinkDown("the link broke")

    board = record("board", wrong_at("n2"))
    board.tensors = {}
    assert "the link broke" in three_with(board, broken).pairs[1].why


def test_what_another_side_holds_by_digest_is_not_pulled():
    board = record("board", wrong_at("n1"))
    board.tensors = {}
    graph, other = chain(), wrong_at("n1")
    sides = {"reference": record("reference"), "simulator": record("simulator", other), "board": board}
    runs = {"reference": step, "simulator": other}
    report = judge_all(
        sides, graph, units(graph), Options(dump_all=True), runs, lambda n: pytest.fail("pulled"), {"x": X}
    )
    assert (report.blame.side, report.blame.node) == ("compiler", "n1") and report.pairs[2].verdict == "PASSED"


def test_matching_digests_need_no_pull():
    board = record("board")
    board.tensors = {}
    assert three_with(board, lambda names: pytest.fail("pulled")).verdict == "PASSED"


def test_a_unit_that_cannot_be_run_alone_leaves_the_failure_unlocated():
    def unable(unit, inputs):
        raise QVerifyError("no kernel")

    graph = chain()
    sides = {"simulator": record("simulator"), "board": record("board", wrong_at("n1"))}
    sides["simulator"].tensors = {"y": sides["simulator"].tensors["y"]}
    report = judge_all(sides, graph, units(graph), Options(), {"simulator": unable}, None, {"x": X})
    assert report.verdict == "FAILED" and report.blame is None and report.pairs[0].cause == "unlocated"


def test_names_pair_through_covers_and_it_is_said():
    graph = chain()
    dump = Recording(
        "dump",
        "test",
        specs={"onnx_y": spec("onnx_y")},
        finals=("onnx_y",),
        tensors={"onnx_y": record("board").tensors["y"]},
    )
    report = judge_all(
        {"simulator": record("simulator", capabilities=frozenset({"finals"})), "dump": dump},
        graph,
        [],
        Options(),
        {},
        None,
    )
    assert report.verdict == "PASSED" and "covers" in report.pairs[0].notes[0]


def test_arg_max_and_top5():
    a = np.array([[9, 8, 7, 6, 5, 1], [1, 2, 3, 4, 5, 6]], np.float32)
    b = a.copy()
    b[0, 5] = 10
    found = two(side("reference", y=a), side("board", y=b)).pairs[0].agreement[0]
    assert (found.arg_max, found.top5) == (0.5, 0.5)


def test_exit_status_and_the_worst_of_several():
    good, bad = three(), three(board=wrong_at("n1"))
    silent = two(side("reference", y=[1]), Recording("board", "test", state="did not run", why="x"))
    assert EXIT == {"PASSED": 0, "FAILED": 1, "INCONCLUSIVE": 3}
    assert combine([good, silent]).exit_status == 3 and combine([silent, bad, good]).exit_status == 1


def test_the_document_follows_its_schema_and_is_strict_json(tmp_path):
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    reports = [
        three(),
        three(board=wrong_at("n1")),
        three(board_caps=frozenset({"finals"})),
        two(side("reference", y=[1, np.nan]), side("board", y=[1, 2])),
        two(side("reference", y=[1, 2]), side("board", y=[1])),
    ]
    for report in reports:
        text = json.dumps(to_json(report), allow_nan=False)
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        json_file.write(report, str(tmp_path / "r.json"))
        assert json.loads((tmp_path / "r.json").read_text())["schema"] == "qverify.report/1"
    row = to_json(reports[3])["pairs"][0]["tensors"][0]
    assert row["max_abs"] == "inf" and row["cosine"] == "nan"


def test_the_terminal_shows_the_three_way_table_and_the_facts():
    text = terminal.render(three(board=wrong_at("n2")), ["y"], True)
    for words in (
        "ref ~ sim",
        "ref ~ board",
        "sim ~ board",
        "blame: board at n2",
        "3 of 3 tensors, 120 elements",
        "rule half",
        "check FAILED",
        "first divergence: n2",
        "FAILED ref on board's inputs",
    ):
        assert words in text


def test_scales_of_another_axis_are_other_values():
    """The same bytes, [0.5, 0.25] along the rows or along the columns."""
    values = np.array([[1, 2], [3, 4]], np.int8)

    def held(axis: int) -> Recording:
        spec = TensorSpec("y", "int8", (2, 2), scale=(0.5, 0.25), zero_point=(0, 0), channel_axis=axis)
        return Recording("reference", "test", specs={"y": spec}, finals=("y",), tensors={"y": values}, capabilities=ALL)

    for rule in ("half", "exact"):
        for one, other, verdict in ((0, 1, "FAILED"), (1, 0, "FAILED"), (1, 1, "PASSED")):
            sides = {"A": held(one), "B": held(other)}
            sides["A"].side, sides["B"].side = "A", "B"
            assert judge_all(sides, None, [], Options(rule=rule), {}).verdict == verdict
