"""The small parts of a comparison: agreement of outputs, the ledger, names that pair, gates and the texts that state them."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare import decimals
from qverify.compare.agreement import measure_agreement
from qverify.compare.coverage import count_tensor, describe_gap, expect_tensors
from qverify.compare.criteria import GATES
from qverify.compare.gate import choose_gate
from qverify.compare.gate_text import parse_gates
from qverify.compare.options import Options
from qverify.compare.pairing import NamePair, declared_names, pair_names
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.report.document import Agreement, Coverage, MissingTensor, Pair, TensorRow
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording

from tests.plain.three_sides import ALL, chain, record, side, spec


def shares(a, b):
    found = measure_agreement("y", np.asarray(a), np.asarray(b))
    return found.arg_max, found.top5


def test_agreement_counts_items_and_knows_what_is_too_small():
    six, other = [[1, 2, 3, 4, 5, 6]], [[6, 2, 3, 4, 5, 1]]
    assert shares(six, six) == (1.0, 1.0) and shares(six, other) == (0.0, 0.0)
    assert shares(six + six, six + other) == (0.5, 0.5)
    assert shares([[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]) == (1.0, None)
    assert shares([[1, 2]], [[1, 2]]) == (1.0, None) and shares([[1, 2]], [[2, 1]]) == (0.0, None)
    for a, b in (([[1]], [[1]]), ([[1], [2]], [[1], [2]]), ([[1, 2]], [1, 2]), ([], [])):
        assert shares(a, b) == (None, None)
    assert shares([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]) == (1.0, 1.0)  # one item
    assert measure_agreement("y", np.ones(2), np.ones(2)) == Agreement("y", 1.0, None)
    for rows in (0, 1):
        assert shares(np.ones((0, 2)), np.ones((rows, 2))) == (None, None)


def test_of_equal_values_the_first_are_among_the_five():
    assert shares([[9, 1, 1, 1, 1, 1, 1]], [[9, 2, 2, 2, 2, 0, 0]]) == (1.0, 1.0)
    assert shares([[9, 1, 1, 1, 1, 1, 1]], [[9, 0, 2, 2, 2, 2, 0]]) == (1.0, 0.0)


def test_what_one_side_alone_has():
    a, b = side("reference", y=[1], a1=[1]), side("board", y=[1], z=[1])
    a.finals, b.finals = ("y",), ("y", "z")
    b.missing["gone"] = "it was lost"
    pairs, ledger = expect_tensors(a, b, None)
    assert [p.name for p in pairs] == ["y"] and ledger.expected == 2
    assert ledger.missing == [MissingTensor("z", "reference", "a final output that the reference does not have")]
    assert ledger.not_offered == [
        MissingTensor("a1", "board", "the board does not offer it"),
        MissingTensor("gone", "reference", "the reference does not offer it"),
    ]


def test_a_final_output_that_no_side_has_is_missing():
    sides = (record("reference", capabilities=frozenset({"finals"})), record("board"))
    graph = chain()
    graph.outputs = ("y", "n9")
    pairs, ledger = expect_tensors(*sides, graph)
    assert [p.name for p in pairs] == ["y"] and ledger.expected == 2
    assert ledger.missing == [MissingTensor("n9", "board", "a final output that the board does not have")]


def ledger(**more):
    return Pair("reference", "board", "PASSED", coverage=Coverage(**more))


def test_a_hole_in_the_ledger_is_said():
    lost = [MissingTensor(n, "board", "lost") for n in ("a", "b", "c")]
    assert (
        describe_gap(ledger(expected=4, compared=1, elements=1, missing=lost))
        == "a is missing on the board: lost (and 2 more)"
    )
    assert (
        describe_gap(ledger(expected=4, compared=3, elements=1, missing=lost[:1])) == "a is missing on the board: lost"
    )
    assert describe_gap(ledger(expected=2, compared=1, elements=9)) == "1 of 2 tensors were compared"
    for nothing in ({"compared": 0, "elements": 9}, {"compared": 1, "elements": 0}):
        assert describe_gap(ledger(expected=1, **nothing)) == "nothing was compared"
    assert describe_gap(ledger(expected=1, compared=1, elements=1)) == ""


def test_what_is_known_by_digest_is_counted_by_itself():
    books = Coverage()
    for by_digest in (True, False, True):
        row = TensorRow("y", "", "", [], "int8", [5], "PASSED", True, True, 5, True, True)
        count_tensor(books, row, by_digest)
    assert (books.compared, books.elements, books.by_digest) == (3, 15, 10)


def test_names_declared():
    a = record("board")
    assert declared_names(a) == ["n1", "n2", "y"]
    a.specs["n1"] = spec("n1")
    a.missing["lost"] = "why"
    assert declared_names(a) == ["n1", "n2", "y", "lost"]
    a.capabilities = frozenset({"finals"})
    assert declared_names(a) == ["y", "lost"]


def named(*names):
    return Recording("dump", "test", specs={n: spec(n) for n in names}, finals=names, capabilities=ALL)


def covering(**covers):
    nodes = [Node(n, "add", ("x",), (n,), covers=c) for n, c in covers.items()]
    return Graph(nodes, {n: spec(n) for n in ("x", *covers)}, {}, ("x",), tuple(covers))


def test_an_onnx_name_pairs_with_the_tensor_whose_node_covers_it():
    graph = covering(n1=("conv", "relu"), y=("head",))
    through = [NamePair("conv", "n1", "conv", True), NamePair("head", "y", "head", True)]
    pairs, only_a, only_b = pair_names(named("n1", "y"), named("conv", "head", "other"), graph)
    assert [(p.a, p.b, p.through_covers) for p in pairs] == [(p.a, p.b, True) for p in through]
    assert (only_a, only_b) == ([], ["other"])
    pairs, only_a, only_b = pair_names(named("conv", "x9"), named("n1", "y"), graph)
    assert [(p.a, p.b, p.name) for p in pairs] == [("conv", "n1", "n1")] and (only_a, only_b) == (["x9"], ["y"])
    pairs, _, only_b = pair_names(named("n1"), named("conv", "relu"), graph)
    assert [(p.name, p.b) for p in pairs] == [("n1", "conv")] and only_b == [
        "relu"
    ]  # the tensor's own name, one stand-in
    pairs, only_a, _ = pair_names(named("conv", "relu"), named("n1"), graph)
    assert [p.a for p in pairs] == ["conv"] and only_a == ["relu"]


def test_a_tensor_that_both_sides_name_is_not_paired_again_through_covers():
    graph = covering(n1=("conv",))
    pairs, only_a, only_b = pair_names(named("n1"), named("n1", "conv"), graph)
    assert [(p.a, p.b) for p in pairs] == [("n1", "n1")] and (only_a, only_b) == ([], ["conv"])


def test_a_name_that_two_nodes_cover_or_that_is_a_tensor_stands_for_nothing():
    graph = covering(n1=("both", "y"), n2=("both",), y=())
    for name in ("both", "y"):
        pairs, _, only_b = pair_names(named("n1"), named(name), graph)
        assert not pairs and only_b == [name]
    assert not pair_names(named("n1"), named("both"), None)[0]
    assert [p.name for p in pair_names(named("n1"), named("n1"), None)[0]] == ["n1"]


def values_pair(**options):
    return choose_gate(record("reference"), record("board"), Options(**options))


def test_the_gate_says_what_it_asks_for_and_how_it_is_milder():
    assert values_pair().describe() == "5 decimals, rule half: |a-b| <= 0.5e-5" and values_pair().relaxed == ()
    assert values_pair(digits=7, rule="exact").relaxed == ()
    for options, text in (
        ({"digits": 4}, "judged to 4 decimals, rule half: |a-b| <= 0.5e-4"),
        ({"rule": "numpy"}, "judged to 5 decimals, rule numpy: |a-b| < 1.5e-5"),
        ({"atol": 0.5, "min_cosine": 0.9}, "judged by atol 0.5; cosine >= 0.9 instead of 5 decimals"),
        ({"nan_equal": True}, "the same NaN and Inf on both sides accepted (--nan-equal)"),
    ):
        assert values_pair(**options).relaxed == (text,)
    assert values_pair(digits=5, digits_given=True, max_lsb=1).relaxed == ()
    assert (
        values_pair(digits_given=True, max_lsb=1).describe() == "5 decimals, rule half: |a-b| <= 0.5e-5; max_lsb <= 1"
    )
    bits = choose_gate(record("simulator"), record("board"), Options(nan_equal=True, atol=1.0))
    assert bits.bits and not bits.decimals and bits.extra == {} and len(bits.relaxed) == 1
    foreign = record("board")
    foreign.runtime = "litert"
    assert not choose_gate(record("simulator"), foreign, Options()).bits
    assert not choose_gate(record("reference"), record("simulator"), Options()).bits


@pytest.mark.parametrize(
    ("precision", "digits", "judged"),
    [
        (3, 5, 3),
        (4, 5, 4),
        (5, 5, 5),
        (6, 5, 5),
        (0, 5, 0),
        (-1, 5, 5),
        (True, 5, 5),
        (2.0, 5, 5),
        (6, 9, 6),
        (17, 17, 17),
    ],
)
def test_the_places_that_a_dump_has(precision, digits, judged):
    a, b = record("A"), record("B")
    for known in (a, b):
        a.settings, b.settings = {}, {}
        known.settings["precision"] = precision
        gate = choose_gate(a, b, Options(digits=digits))
        assert gate.digits == judged
        said = [t for t in gate.relaxed if "are known to" in t]
        assert said == ([f"the values of {known.side} are known to {judged} decimals only"] if judged < 5 else [])


def test_options_know_whether_decimals_hold():
    for options, asked in (
        ({}, True),
        ({"digits": 4}, True),
        ({"max_lsb": 1}, False),
        ({"max_lsb": 0}, False),
        ({"max_lsb": 1, "digits_given": True}, True),
        ({"max_lsb": 1, "digits": 6}, True),
        ({"max_lsb": 1, "rule": "exact"}, True),
    ):
        assert Options(**options).decimals == asked, options
    for digits in (2.5, True, "3"):
        with pytest.raises(UsageError):
            Options(digits=digits)
    assert Options(digits=0).digits == 0
    with pytest.raises(
        UsageError, match="decimals rule: got 'nearest', wanted one of half, round, truncate, numpy, exact"
    ):
        Options(rule="nearest")
    with pytest.raises(UsageError, match="got -1, wanted 0 to 17"):
        Options(digits=-1)


def test_the_bounds_of_gates_are_their_own():
    known = {gate.option: gate for gate in GATES}
    assert (
        known["min_cosine"].allows(-1)
        and known["min_cosine"].allows(1)
        and known["min_cosine"].allowed_range == "-1 to 1"
    )
    assert known["atol"].allows(0) and known["atol"].allows(1e300) and known["atol"].allowed_range == "a number >= 0"
    assert known["min_sqnr_db"].allows(-1e9) and known["min_sqnr_db"].allowed_range == "a finite number"
    assert not any(known[o].allows(v) for o in known for v in (float("inf"), -float("inf"), float("nan")))
    assert known["min_sqnr_db"].flag == "--min-sqnr" and known["max_lsb"].flag == "--max-lsb"


def test_a_tolerance_given_twice_is_refused_by_its_field():
    with pytest.raises(UsageError, match="--gate close:rtol=1: rtol is given twice"):
        parse_gates(["close:rtol=0", "close:rtol=1"])
    assert parse_gates(["cosine:0", "rmse:1"]) == {"min_cosine": 0.0, "max_rmse": 1.0}


def test_equal_floats_are_searched_for_nan_in_the_copy_at_hand():
    reference, board = side("reference", head=[1.5, 2.5]), side("board", y=[1.5, 2.5])
    value = board.tensors.pop("y")
    reference.digests, board.digests = {"head": tensor_digest(value)}, {"y": tensor_digest(value)}
    graph = covering(y=("head",))
    graph.tensors["y"] = board.specs["y"]
    report = judge_all(
        {"reference": reference, "board": board}, graph, [], Options(), {}, lambda names: pytest.fail("pulled")
    )
    assert report.verdict == "PASSED" and report.pairs[0].tensors[0].digests_equal


def test_the_rules_of_decimals_say_themselves_and_refuse_others():
    assert [decimals.limit(rule, 2) for rule in ("half", "numpy", "exact")] == [0.005, 0.015, 0.0]
    assert decimals.power(3) == 0.001
    assert decimals.describe("exact", 3) == "rule exact: a == b"
    assert decimals.describe("truncate", 3) == "3 decimals, rule truncate: equal after cutting at 3 places"
    assert decimals.describe("round", 3) == "3 decimals, rule round: equal after rounding to 3 places"
    with pytest.raises(ValueError, match="decimals rule 'nearest': wanted one of half, round"):
        decimals.matches("nearest", 1, *[np.zeros(1)] * 3)


@pytest.mark.parametrize("rule", ["half", "numpy", "exact"])
@pytest.mark.parametrize("distance", [0.5e-3, 0.51e-3, 1.5e-3, 1.4e-3, 3.0, 1e-17, 7e200, 1e-300, 5e-324, 1.7e308])
def test_the_largest_n_at_which_a_distance_matches(rule, distance):
    found = decimals.largest_by_distance(rule, distance)
    told_by = "numpy" if rule == "numpy" else "half"

    def holds(n):
        return bool(decimals.matches(told_by, n, *[np.zeros(1)] * 2, np.array([distance]))[0])

    assert holds(found) and (found == decimals.HIGHEST or not holds(found + 1))


def test_a_distance_of_nothing_and_of_anything():
    assert decimals.largest_by_distance("half", 0.0) is None
    assert decimals.largest_by_distance("half", float("inf")) == decimals.LOWEST == -400
    assert (
        decimals.HIGHEST == 323
        and max(decimals.list_searched_digits()) == 17
        and min(decimals.list_searched_digits()) == -39
    )
    one = np.array([12.34])
    assert max(decimals.find_matching_digits("truncate", one, one + 0.01, np.array([0.01]))) == 1
