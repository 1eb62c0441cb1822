"""Verdicts without any side: the peers' failures, capabilities, NaN, gates, the document."""

from __future__ import annotations

import json
import math

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.combine_reports import combine
from qverify.compare.criteria import GATES, MAX_DIGITS
from qverify.compare.later import JUDGED, Later
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
from qverify.renderers import terminal, verdict_lines
from qverify.renderers.formats import page
from qverify.renderers.text_view import TextView
from qverify.report.document import EXIT, TensorRow
from qverify.report.report_json import to_json
from qverify.report.schema import report_schema
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import ALL, X, chain, floats, record, side, spec, three, three_with, two, wrong_at


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
    for broken.state in ("partial", "did not run"):  # whatever came of it
        broken.why = "link lost"
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


def test_a_final_output_that_was_lost_on_the_way_never_passes():
    board = side("board", y=[1], z=[2])
    del board.tensors["z"]
    board.missing["z"] = "lost"
    report = two(side("reference", y=[1], z=[2]), board)
    assert report.verdict == "INCONCLUSIVE" and report.pairs[0].coverage.missing[0].why == "lost"


def test_a_size_mismatch_fails():
    report = two(side("reference", y=[1, 2, 3]), side("board", y=[1, 2]))
    assert report.verdict == "FAILED" and "[3]" in report.pairs[0].why and "[2]" in report.pairs[0].why
    transposed = two(side("reference", y=[[1, 2, 3]]), side("board", y=[[1], [2], [3]]))
    assert transposed.verdict == "FAILED"


def test_bytes_other_than_the_spec_says_fail():
    for came in (np.array([1, 2], np.float64), np.array([1], np.float32)):
        board = side("board", y=[1, 2])
        board.tensors = {"y": came}
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
    for count in (300_001, 3_000_001):
        big, other = np.zeros(count), np.zeros(count)
        other[-1] = 1
        assert two(side("reference", y=big), side("board", y=other)).verdict == "FAILED"


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf])
def test_not_finite(wild):
    good, bad = [1.0, 2.0], [1.0, wild]
    assert two(side("reference", y=good), side("board", y=bad)).verdict == "FAILED"
    assert two(side("reference", y=bad), side("board", y=good), Options(nan_equal=True)).verdict == "FAILED"
    assert two(side("reference", y=bad), side("board", y=bad)).verdict == "INCONCLUSIVE"
    assert two(side("reference", y=bad), side("board", y=bad), Options(nan_equal=True)).verdict == "PASSED"


@pytest.mark.parametrize("wild", [np.nan, np.inf])
def test_metrics_are_of_the_finite_elements(wild):
    a, b = [wild, 3.0, 4.0], [wild, 4.0, 3.0]
    report = two(side("reference", y=a), side("board", y=b), Options(nan_equal=True))
    metrics = report.pairs[0].tensors[0].metrics
    assert metrics["cosine"] == pytest.approx(24 / 25, rel=1e-12) and metrics["max_abs"] == 1.0


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
    assert two(a, b, Options(digits=3)).verdict == "PASSED"
    assert two(a, b, Options(digits=3, rule="exact")).verdict == "FAILED"
    assert two(a, b, Options(atol=1e-3)).verdict == "PASSED"
    assert two(a, b, Options(atol=1e-3, digits_given=True)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, atol=1e-6)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, min_cosine=1.0)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, max_rmse=1e-6)).verdict == "FAILED"
    assert two(a, b, Options(digits=3, min_sqnr_db=500)).verdict == "FAILED"


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.option)
def test_a_gate_has_the_same_bounds_wherever_it_comes_from(gate, capsys):
    """Options are also read out of captures."""
    limits = [math.nan, math.inf, -math.inf]
    limits += [gate.lowest - 1e-9] if gate.lowest is not None else []
    limits += [gate.highest + 1e-9] if gate.highest is not None else []
    for limit in limits:
        with pytest.raises(UsageError, match=f"gate {gate.metric}: got .*, wanted {gate.allowed_range}"):
            Options(**{gate.option: limit})
        assert main(["compare", "a", "b", gate.flag, str(limit)]) == 2
        assert f"Invalid value for '{gate.flag}'" in capsys.readouterr().err
    assert Options(**{gate.option: 0.5}).gates == {gate.metric: 0.5}


def test_as_many_decimals_on_the_command_line_as_anywhere(capsys):
    assert Options(digits=MAX_DIGITS).digits == 17
    with pytest.raises(UsageError, match="wanted 0 to 17"):
        Options(digits=MAX_DIGITS + 1)
    assert main(["compare", "a", "b", "-c", "18"]) == 2 and "0<=x<=17" in capsys.readouterr().err


def test_digits_beyond_a_dumps_precision_are_not_judged_and_it_is_said():
    a, b = side("A", y=[1.0]), side("B", y=[1.0 + 2e-4])
    assert judge_all({"A": a, "B": b}, None, [], Options(), {}, None).verdict == "FAILED"
    b.settings["precision"] = 3
    report = judge_all({"A": a, "B": b}, None, [], Options(), {}, None)
    assert report.verdict == "PASSED" and "3 decimals" in report.pairs[0].gate
    assert "the values of B are known to 3 decimals only" in verdict_lines.render(report)


@pytest.mark.parametrize("claim", [0, 3, -300, True])
def test_a_side_of_our_own_runtime_can_claim_no_precision(claim):
    a, b = side("reference", y=[1.0]), side("board", y=[1.4])
    b.settings["precision"] = claim
    assert two(a, b).verdict == "FAILED"


@pytest.mark.parametrize(
    "gate", [{"digits": 5, "digits_given": True}, {"digits": 0}, {"max_lsb": 1}, {"atol": 100.0}, {"min_cosine": 0.0}]
)
def test_simulator_and_board_are_always_held_to_bits(gate):
    """All that both sides have must be bit-equal, whatever is asked of value pairs."""
    for dump_all in (False, True):
        pair = three(board=wrong_at("n2"), options=Options(dump_all=dump_all, **gate)).pairs[2]
        assert pair.verdict == "FAILED" and pair.gate == "bit equality" and pair.coverage.expected == 3


def test_relax_board_is_said_with_what_was_lost():
    off = Options(relax_board=True, max_lsb=1)
    pair = three(board=wrong_at("n2"), options=off).pairs[2]
    assert pair.verdict == "PASSED" and not pair.bit_equal and pair.coverage.compared == 3
    for words in ("bit equality relaxed by --relax-board to max_lsb <= 1", "not bit-equal in 2 of 3 tensors, first n2"):
        assert words in verdict_lines.verdict_line(pair)
    healthy = three(options=off).pairs[2]
    assert "bit-equal in all 3 tensors compared" in verdict_lines.verdict_line(healthy) and healthy.bit_equal
    assert three(board=wrong_at("n2", by=3), options=off).pairs[2].verdict == "FAILED"


def test_a_gate_that_applies_to_no_tensor_leaves_bit_equality():
    specs, arrays = floats(y=[1.0])
    _, others = floats(y=[1.5])
    sides = {
        n: Recording(n, "test", specs=specs, finals=("y",), tensors=t)
        for n, t in (("simulator", arrays), ("board", others))
    }
    assert judge_all(sides, None, [], Options(max_lsb=1, relax_board=True), {}, None).verdict == "FAILED"


def test_a_difference_inside_is_seen_by_bits_even_when_the_outputs_agree():
    def healed(unit, inputs):
        made = wrong_at("n1")(unit, inputs)
        return {"n2": (X + 2).astype(np.int8)} if unit.name == "n2" else made

    report = three(board=healed, options=Options())
    assert report.verdict == "FAILED" and report.blame.node == "n1" and report.blame.side == "board"


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
    assert report.verdict == "PASSED" and "paired by the nodes they cover" in report.pairs[0].notes[0]


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
        page("json").write(report, str(tmp_path / "r.json"))
        assert json.loads((tmp_path / "r.json").read_text())["schema"] == "qverify.report/1"
    row = to_json(reports[3])["pairs"][0]["tensors"][0]
    assert row["max_abs"] == "inf" and row["cosine"] == "nan"


def test_the_terminal_shows_the_three_way_table_and_the_facts():
    text = terminal.render(three(board=wrong_at("n2")), ["y"], TextView(160))
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


def test_what_no_verdict_needs_is_measured_only_if_it_is_shown():
    """The rows are those of three sides, two of which have the same bytes, as in a step of a sequence."""
    right = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 4, 16)
    wrong = right + np.float32(0.01)
    sides = {s: side(s, y=v) for s, v in (("reference", right), ("simulator", wrong), ("board", wrong))}

    def judge(later: Later | None) -> list[TensorRow]:
        return [r for p in judge_all(sides, None, [], Options(), {}, later=later).pairs for r in p.tensors]

    whole, shown, left_out = judge(None), Later(), Later()
    rows, others = judge(shown), judge(left_out)
    assert "kl_divergence" not in rows[0].metrics and rows[0].channels is None and whole[0].channels is not None
    assert [(r.verdict, r.why, r.failing) for r in rows] == [(r.verdict, r.why, r.failing) for r in whole]
    shown.finish(is_shown=True)
    left_out.finish(is_shown=False)
    assert rows == whole and [*rows[0].metrics] == [*whole[0].metrics]
    assert set(others[0].metrics) == JUDGED
