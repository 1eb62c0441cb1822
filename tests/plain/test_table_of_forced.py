"""The column of forced verdicts: what it says of a tensor that only some pairs could force."""

from __future__ import annotations

from qverify.renderers import tensor_table, verdict_lines
from qverify.renderers.text_view import TextView

from tests.plain.three_sides import ALL, step, three, wrong_at

FINALS_ONLY = frozenset({"finals", "digests"})


def rows(report, columns=200):
    lines = tensor_table.render(report, ["y"], TextView(columns=columns, detail="verbose")).split("\n")
    return {line.split()[0]: line for line in lines if line}


def test_a_tensor_that_one_pair_could_not_force_is_not_ok():
    report = three(board=wrong_at("n1"), board_caps=FINALS_ONLY)
    assert report.pairs[0].tensors[-1].forced.verdict == "PASSED"  # reference ~ simulator, which was forced
    shown = rows(report)
    assert shown["y"].endswith("not forced (ref ~ board, sim ~ board)")
    assert shown["n1"].split()[-4:] == [
        "-",
        "-",
        "-",
        "-",
    ]  # compared by reference ~ simulator only: LSB, |a-b|, forced
    assert report.pairs[0].tensors[0].metrics["max_lsb"] == 0 and "ok" not in shown["n1"]
    assert "forced ok" not in "\n".join(shown.values())


def test_short_words_do_not_hide_that_it_was_not_forced():
    assert rows(three(board=wrong_at("n1"), board_caps=FINALS_ONLY), 60)["y"].endswith("not forced")


def test_a_tensor_that_every_pair_forced_is_ok_and_one_that_fails_says_in_which():
    shown = rows(three(board=wrong_at("n2"), board_caps=ALL))
    assert shown["y"].endswith("ok")
    assert shown["n2"].endswith("FAILED ref on board's inputs")
    assert "not forced" not in "\n".join(shown.values())


def test_a_pair_of_equal_bytes_need_not_be_forced():
    report = three(board=wrong_at("n2"), board_caps=ALL)
    pair = report.pairs[0]
    assert pair.verdict == "PASSED" and all(row.bit_equal for row in pair.tensors)
    for row in pair.tensors:
        row.forced = None
    assert rows(report)["y"].endswith("ok") and "not forced" not in "\n".join(rows(report).values())


def test_a_report_without_forced_verdicts_has_no_such_column():
    report = three(board=step, board_caps=FINALS_ONLY)
    for pair in report.pairs:
        for row in pair.tensors:
            row.forced = None
    assert "forced" not in "\n".join(rows(report).values())


def test_a_verdict_line_names_the_blamed_node_if_another_tensor_is_its_reason():
    report = three(board=wrong_at("n2"), board_caps=ALL)
    node = report.blamed[0].node
    pair = next(p for p in report.pairs if (p.a, p.b) == ("simulator", "board"))
    assert "blame: " not in verdict_lines.verdict_line(pair, blamed=report.blamed)  # the reason names it
    pair.why = "n1: 4 elements do not match"
    assert f"; blame: board at {node}" in verdict_lines.verdict_line(pair, blamed=report.blamed)
    for row in pair.tensors:
        row.forced = None
    assert "blame: " not in verdict_lines.verdict_line(pair, blamed=report.blamed)  # of another pair or frame


def test_two_ways_of_counting_are_explained():
    report = three(board=wrong_at("n2"), board_caps=ALL)
    assert tensor_table.COUNTS not in tensor_table.render(report, ["y"], TextView(columns=300))
    row = next(r for p in report.pairs for r in p.tensors if r.verdict == "FAILED")
    row.failing, row.metrics["mismatched"] = 1, 3
    assert tensor_table.COUNTS in tensor_table.render(report, ["y"], TextView(columns=300))
