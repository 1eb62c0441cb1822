"""What the report of several pairs says: captions, blame across sides, causes, what was kept, and reports made one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from qverify.compare.blame import find_culprits, find_first_divergence
from qverify.compare.combine_reports import combine
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.report.document import Forced, NotRun, OtherDifferences, ReportDocument
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import ALL, X, chain, record, side, spec, step, three, two, wrong_at

RS, RB, SB = ("reference", "simulator"), ("reference", "board"), ("simulator", "board")
GOOD, BAD = Forced("PASSED", 0, 0), Forced("FAILED", 2, 3, 1.0, 40, "1 LSB", "reference", "board", "beyond")


def test_first_divergence_wants_inputs_that_are_known_to_agree():
    known = units(chain())
    states = {"x": True, "n1": True, "n2": False, "y": False}
    found = find_first_divergence(known, states.get)
    assert (found.tensor, found.node, found.op, found.also) == ("n2", "n2", "add", [])
    assert find_first_divergence(known, {**states, "n2": None}.get) is None
    assert find_first_divergence(known, dict.fromkeys(states, True).get) is None
    apart = {"x": True, "n1": False, "n2": True, "y": False}
    assert find_first_divergence(known, apart.get).also == ["y"]


def test_the_numbers_of_a_blame():
    known = units(chain())
    (blame,) = find_culprits(known, {RB: {"n1": GOOD, "n2": BAD, "y": BAD}, RS: {"n2": GOOD}, SB: {"n1": GOOD}})
    assert (blame.side, blame.node, blame.also) == ("board", "n2", ["y"])
    assert blame.why == (
        "add: given the board's recorded inputs, the reference computes 3 of 40 elements differently, up to 2 LSB (limit 1 LSB); "
        "reference and simulator agree here; no simulator ran, so the compiler cannot be ruled out"
    )
    floats = Forced("FAILED", None, 3, 0.00123456, 40, "a share", "reference", "board")
    assert "up to 0.00123 (limit a share)" in find_culprits(known, {RB: {"n2": floats}})[0].why
    shape = Forced("FAILED", None, None, None, 40, "1 LSB", "reference", "board", "int8[3] recorded")
    assert (
        "computes all of 40 elements differently, int8[3] recorded" in find_culprits(known, {RB: {"n2": shape}})[0].why
    )
    assert not find_culprits(known, {RB: {"n2": Forced("INCONCLUSIVE", None, None)}, RS: {}})


def test_the_pair_that_speaks_for_a_blame():
    known = units(chain())
    bad = {pair: Forced("FAILED", n, 1, 1.0, 40, "0 LSB", *pair) for n, pair in enumerate((RS, RB, SB), 1)}
    every = {pair: {"n2": f} for pair, f in bad.items()}
    why = {b.side: b.why for b in find_culprits(known, every)}
    assert "up to 3 LSB" in why["board"] and "up to 2 LSB" in why["compiler"]
    (board,) = find_culprits(known, {RS: {"n2": GOOD}, RB: every[RB], SB: every[SB]})
    assert (
        "given the board's recorded inputs, the simulator" in board.why
        and "reference and simulator agree here" in board.why
    )
    assert "not excluded" not in board.why
    (compiler,) = find_culprits(known, {RS: every[RS], SB: {"n2": GOOD}})
    assert compiler.side == "compiler" and "given the simulator's recorded inputs, the reference" in compiler.why
    assert "simulator and board agree here" in compiler.why


def test_an_output_of_several_that_fails_makes_its_unit_fail():
    tensors = {n: spec(n) for n in ("x", "y0", "y1")}
    graph = Graph([Node("y0", "split", ("x",), ("y0", "y1"))], tensors, {}, ("x",), ("y0", "y1"))
    (unit,) = units(graph)
    assert find_culprits([unit], {RB: {"y0": GOOD, "y1": BAD}})[0].node == "y0"
    assert not find_culprits([unit], {RB: {"y0": GOOD}}) and not find_culprits([unit], {RB: {}})
    unknown = Forced("INCONCLUSIVE", None, None)
    held = {RB: {"y0": BAD, "y1": GOOD}, RS: {"y0": GOOD, "y1": unknown}}
    assert "reference and simulator agree here" not in find_culprits([unit], held)[0].why
    assert find_first_divergence([unit], {"x": True, "y0": True, "y1": False}.get).tensor == "y1"


@pytest.mark.parametrize(("sides", "blamed"), [((RB,), "reference"), ((RB, SB), "board"), ((RS,), "reference")])
def test_where_this_hosts_onnxruntime_is_not_trusted(sides, blamed):
    """It stands alone against the board: then the board is not blamed; the simulator against the board still says so."""
    (found,) = find_culprits(units(chain()), {pair: {"n2": BAD} for pair in sides}, ["n2"])
    assert found.side == blamed and ("canary" in found.why) == (blamed == "reference")
    assert find_culprits(units(chain()), {pair: {"n2": BAD} for pair in sides}, ["n1"])[0].side != "reference"


def test_a_distrusted_node_condemns_no_pair_with_the_reference():
    def healed(unit, inputs):
        made = wrong_at("n1")(unit, inputs)
        return {"n2": (X + 2).astype(np.int8)} if unit.name == "n2" else made

    graph = chain()
    sides = {"reference": record("reference"), "board": record("board", healed)}
    for distrusted, verdict in (((), "FAILED"), (("n1", "n2"), "PASSED"), (("n1",), "FAILED")):
        report = judge_all(
            sides, graph, units(graph), Options(), {"reference": step}, None, {"x": X}, distrusted=distrusted
        )
        assert report.verdict == verdict, distrusted
    assert (report.pairs[0].why, report.blame.node) == ("n2 fails when recomputed from its recorded inputs", "n1")
    both = judge_all(sides, graph, units(graph), Options(), {"reference": step}, None, {"x": X})
    assert both.pairs[0].why == "n1 fails when recomputed from its recorded inputs (and 1 more tensor)"


def test_a_dump_of_another_runtime_is_not_condemned_by_a_node_inside():
    def healed(unit, inputs):
        made = wrong_at("n1", 9)(unit, inputs)
        return {"n2": (X + 2).astype(np.int8)} if unit.name == "n2" else made

    graph = chain()
    graph.nodes = [replace(node, op="relu") for node in graph.nodes]
    sides = {"reference": record("reference"), "dump": record("dump", healed)}
    report = judge_all(sides, graph, units(graph), Options(), {"reference": step}, None, {"x": X})
    assert report.verdict == "PASSED" and report.pairs[0].others == OtherDifferences(1, "n1", False)


def test_no_unit_to_force():
    a, b = record("reference"), record("board", wrong_at("y"))
    report = judge_all(
        {"reference": a, "board": b}, chain(), [], Options(dump_all=True), {"reference": step}, None, {"x": X}
    )
    assert report.pairs[0].cause == "unlocated" and "no node to force" in report.pairs[0].notes


def test_bytes_of_a_board_that_its_own_inputs_give_when_recomputed():
    """The simulator was given x, the board something else: every node is right."""
    graph = chain()
    other = record("board")
    values = {"x": (X + 1).astype(np.int8)}
    for unit in units(graph):
        values |= step(unit, values)
    other.tensors = {n: values[n] for n in other.tensors}
    other.digests = {}
    sim = record("simulator")
    sim.digests = {}
    report = judge_all(
        {"simulator": sim, "board": other},
        graph,
        units(graph),
        Options(),
        {"simulator": step},
        None,
        {"x": values["x"]},
    )
    assert report.pairs[0].cause == "node" and report.blame.node == "n1"


def test_rows_kept_and_units_forced():
    shown = three(board=wrong_at("n2"), options=Options()).pairs
    assert [r.name for r in shown[0].tensors] == ["y"] and [r.name for r in shown[2].tensors] == ["n2", "y"]
    assert [r.name for r in three().pairs[0].tensors] == ["n1", "n2", "y"]
    steps = []
    three(progress=lambda done, of: steps.append((done, of)))
    assert steps[:3] == [(1, 3), (2, 3), (3, 3)]


def test_what_forcing_found_is_handed_out_where_asked_for():
    located = []
    three(options=Options(), located=located)
    assert [(one.a, one.b) for one in located] == [RS, RB, SB]
    assert all(set(one.forced) == {"n1", "n2", "y"} for one in located) and located[0].same("n1") is True
    few = []
    three(options=Options(), located=None, progress=lambda done, of: few.append(of))
    assert few and set(few) == {1, 3}


def test_one_array_for_equal_bytes():
    sides = {n: record(n) for n in ("reference", "board")}
    sides["reference"].tensors["extra"] = X  # no digest, not shared
    shorter = record("simulator")
    shorter.tensors["n1"] = shorter.tensors["n1"][:7]  # of the same digest: not believed
    judge_all(
        {**sides, "simulator": shorter}, chain(), units(chain()), Options(), {"reference": step, "simulator": step}
    )
    assert sides["board"].tensors["n2"] is sides["reference"].tensors["n2"]
    assert shorter.tensors["n1"].shape == (7,)


def test_sides_are_listed_as_they_were_given():
    a, b = side("reference", y=[1]), side("board", y=[1])
    a.engine, a.version, a.host, a.duration_s, a.settings = "onnxruntime", "1.2", "here", 0.12345678, {"threads": 1}
    b.state, b.why = "partial", "link lost"
    a.link, b.link = {"bytes_sent": 1}, {"bytes_sent": 2, "cached_bytes": 5}
    report = two(a, b)
    first, second = report.sides
    assert first == {
        "name": "reference",
        "engine": "onnxruntime",
        "version": "1.2",
        "settings": {"threads": 1},
        "seconds": 0.123457,
        "host": "here",
        "state": "complete",
        "why": "",
    }
    assert (second["state"], second["why"]) == ("partial", "link lost") and second["host"]
    assert report.link == {"bytes_sent": 3, "cached_bytes": 5}
    assert report.pairs[0].cause == "does_not_run" and report.pairs[0].why == "the board ran only partly: link lost"


def test_a_failed_pair_of_a_board_that_ran_partly_stays_failed():
    a, b = side("reference", y=[1]), side("board", y=[2])
    b.state = "partial"
    assert two(a, b).verdict == "FAILED"


def test_what_did_not_run_says_why_and_counts_what_was_wanted():
    report = two(side("reference", y=[1], z=[1]), Recording("board", "test", state="did not run"))
    assert report.pairs[0].why == "the board did not run: no reason given" and report.pairs[0].coverage.expected == 2
    graph = chain()
    sides = {"reference": record("reference"), "board": Recording("board", "test", state="did not run", why="dead")}
    report = judge_all(sides, graph, units(graph), Options(), {"reference": step}, None, {"x": X})
    assert report.pairs[0].coverage.expected == 1 and report.pairs[0].first_divergence is None


def test_simulator_and_board_of_other_models_are_not_judged():
    for a, b, verdict in (("1", "2", "INCONCLUSIVE"), ("1", "1", "PASSED"), ("", "2", "PASSED"), ("1", "", "PASSED")):
        sides = {n: side(n, y=[1]) for n in ("simulator", "board")}
        sides["simulator"].model_sha256, sides["board"].model_sha256 = a, b
        report = judge_all(sides, None, [], Options(), {})
        assert report.verdict == verdict
    sides = {n: side(n, y=[1]) for n in ("reference", "board")}
    sides["reference"].model_sha256, sides["board"].model_sha256 = "1", "2"
    assert judge_all(sides, None, [], Options(), {}).verdict == "PASSED"


def finals(name, **tensors):
    found = side(name, **tensors)
    found.capabilities = frozenset({"finals"})
    return found


def test_the_side_that_is_alone_by_its_outputs_is_a_hint():
    def notes(**values):
        graph = Graph([], {"y": TensorSpec("y", "float32", (1,))}, {}, (), ("y",))
        sides = {n: finals(n, y=[v]) for n, v in values.items()}
        report = judge_all(sides, graph, [], Options(), {})
        assert report.blame is None
        return report.notes

    assert notes(reference=1, simulator=1, board=2) == ["reference and simulator agree; the board differs from both"]
    assert notes(reference=2, simulator=1, board=1) == ["simulator and board agree; the reference differs from both"]
    assert notes(reference=1, simulator=2, board=3) == notes(reference=1, simulator=1, board=1) == []
    assert notes(reference=1, simulator=2) == notes(reference=1, board=2) == []
    assert notes(reference=1, simulator=1, board=np.nan) == [
        "reference and simulator agree; the board differs from both"
    ]


def test_the_scope_says_which_side_offers_outputs_only():
    few = frozenset({"finals"})
    a, b = record("reference"), record("board")
    for caps_a, caps_b, said in (
        (ALL, few, "final outputs only: the board offers no per-node dump"),
        (few, few, "final outputs only: the reference and the board offer no per-node dump"),
        (ALL, ALL, "all tensors"),
    ):
        a.capabilities, b.capabilities = caps_a, caps_b
        assert two(a, b).pairs[0].scope == said
    assert two(record("reference"), record("board"), Options()).pairs[0].scope == "final outputs"
    assert three(options=Options()).pairs[2].scope == "final outputs and every digest"


def test_reports_made_one():
    bad, good = three(board=wrong_at("n1")), three()
    for at, report in enumerate((good, bad)):
        report.notes, report.timings, report.link = [f"note {at}"], {"run": 1.5 + at}, {"bytes_sent": at}
        report.not_run = [NotRun("float", f"why {at}")]
        report.repeat = {"unstable": [] if at == 0 else ["n1"], "runs": at, "why": ""}
    whole = combine([good, bad])
    assert whole.verdict == "FAILED" and whole.blame.node == "n1" and len(whole.pairs) == 6 and len(whole.sides) == 6
    assert whole.notes == ["note 0", "note 1"] and whole.timings == {"run": 4.0} and whole.link == {"bytes_sent": 1}
    assert whole.not_run == [NotRun("float", "why 1")] and whole.repeat["runs"] == 1
    assert combine([good, good]).repeat["runs"] == 0 and combine([good]).blame is None and whole.dump_all
    assert isinstance(whole, ReportDocument) and whole.decimals == {"digits": 5, "rule": "half"}


def test_of_repeated_runs_the_worst_is_reported():
    """Among several frames, bytes that changed come first, then runs that broke off, then those that were the same."""
    same, broken, unstable = three(), three(), three()
    same.repeat = {"unstable": [], "runs": 5, "why": ""}
    broken.repeat = {"unstable": [], "runs": 2, "why": "the board failed in run 3 of 5"}
    unstable.repeat = {"unstable": ["n1"], "runs": 5, "why": ""}
    assert combine([same, broken]).repeat is broken.repeat and combine([three(), same]).repeat is same.repeat
    assert combine([same, broken, unstable]).repeat is unstable.repeat and combine([three()]).repeat is None


def test_a_board_whose_every_unit_is_right_was_fed_something_else():
    graph, x = chain(), (X + 1).astype(np.int8)
    board = record("board")
    values = {"x": x}
    for unit in units(graph):
        values |= step(unit, values)
    board.tensors, board.digests = {n: values[n] for n in board.tensors}, {}
    sim = record("simulator")
    sim.tensors, sim.digests = {"y": sim.tensors["y"]}, {}
    sides = {"simulator": sim, "board": board}
    (pair,) = judge_all(sides, graph, units(graph), Options(), {"simulator": step}, None, {"x": x}).pairs
    assert (pair.verdict, pair.cause) == ("FAILED", "unlocated")
    assert any(note.startswith("every node, when forced, gives the board's bytes") for note in pair.notes)


def test_without_a_model_a_failure_is_unlocated():
    assert two(side("reference", y=[1]), side("board", y=[2])).pairs[0].cause == "unlocated"
    assert two(side("reference", y=[1]), side("board", y=[1])).pairs[0].cause is None


def test_only_final_outputs_are_expected_unless_more_is_asked_for():
    a, b = record("reference"), record("board")
    for found in (a, b):
        found.specs["lost"] = spec("lost")
    b.missing["lost"] = "gone"
    (pair,) = two(a, b, Options()).pairs
    assert (pair.verdict, pair.coverage.expected, pair.coverage.missing) == ("PASSED", 1, [])
    (pair,) = two(a, b).pairs
    assert (pair.verdict, pair.coverage.expected, len(pair.coverage.missing)) == ("INCONCLUSIVE", 4, 1)
    (pair,) = two(side("reference", y=[1], z=[1]), side("board", y=[1]), Options()).pairs
    assert (pair.verdict, pair.coverage.expected, pair.cause) == ("INCONCLUSIVE", 2, "coverage")


def test_what_is_equal_by_digest_alone_is_counted_by_itself():
    board = record("board")
    board.tensors = {"y": board.tensors["y"]}
    (pair,) = two(record("reference"), board).pairs
    assert (pair.coverage.elements, pair.coverage.by_digest) == (120, 80)
    assert [a.output for a in pair.agreement] == ["y"]
    board.tensors = {}
    (pair,) = two(record("reference"), board).pairs
    assert (
        pair.coverage.by_digest == 120 and pair.agreement[0].arg_max == 1.0
    )  # the same bytes are held on the other side


def test_what_forcing_needs_is_pulled_in_one_request():
    whole, asked = record("board", wrong_at("n1")), []
    board = record("board", wrong_at("n1"))
    board.tensors = {"y": board.tensors["y"]}

    def pull(names):
        asked.append(sorted(names))
        return {n: whole.tensors[n] for n in names}

    graph, sides = chain(), {"reference": record("reference"), "board": board}
    report = judge_all(sides, graph, units(graph), Options(), {"reference": step}, pull, {"x": X})
    assert report.blame.node == "n1" and asked == [["n1", "n2"]]
