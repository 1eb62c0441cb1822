"""Over random sides, faults and options: nothing turns FAILED or INCONCLUSIVE into PASSED but a documented relaxer that the
verdict line names; options of values never speak to simulator against board."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.renderers import verdict_lines

from tests.plain.three_sides import ALL, X, record, spec, step, wrong_at

NAMES = ("x", "n1", "n2", "n3", "y")
Fault = tuple[str, int]
_faults = st.lists(st.tuples(st.sampled_from(NAMES[1:]), st.sampled_from([1, 2, 40])), max_size=2)
_caps = st.sampled_from(
    [ALL, frozenset({"finals", "digests"}), frozenset({"finals", "per_node"}), frozenset({"finals"})]
)
_stricter = st.fixed_dictionaries(
    {},
    optional={
        "digits": st.integers(5, 17),
        "digits_given": st.just(True),
        "rule": st.sampled_from(["half", "exact"]),
        "dump_all": st.booleans(),
        "strict": st.booleans(),
    },
)
_relaxers = {
    "digits": st.integers(0, 4),
    "rule": st.sampled_from(["numpy", "round", "truncate"]),
    "atol": st.sampled_from([0.0, 0.5, 100.0]),
    "max_lsb": st.sampled_from([0.0, 1.0, 255.0]),
    "min_cosine": st.sampled_from([-1.0, 0.999999]),
    "relax_board": st.just(True),
    "nan_equal": st.just(True),
}


def chain(float_node: str | None) -> Graph:
    nodes = [Node(b, "add", (a,), (b,), integer_reference=b != float_node) for a, b in itertools.pairwise(NAMES)]
    return Graph(nodes, {n: spec(n) for n in NAMES}, {}, ("x",), ("y",))


def run_with(faults: list[Fault]):
    def run(unit, inputs):
        made = step(unit, inputs)
        for node, by in faults:
            if unit.name == node:
                made = wrong_at(node, by)(unit, inputs)
        return made

    return run


def report_of(graph, ref, sim, board, caps, lost, options):
    runs = {n: run_with(f) for n, f in (("reference", ref), ("simulator", sim), ("board", board)) if f is not None}
    sides = {n: record(n, run, caps if n == "board" else ALL, graph) for n, run in runs.items()}
    if "board" in sides and lost in sides["board"].digests:
        del sides["board"].digests[lost], sides["board"].tensors[lost]
        sides["board"].missing[lost] = "it was not sent"
    return judge_all(sides, graph, units(graph), options, runs, None, {"x": X})


_case = st.fixed_dictionaries(
    {
        "graph": st.sampled_from([None, "n2"]).map(chain),
        "ref": st.just([]),
        "sim": st.one_of(st.none(), _faults),
        "board": _faults,
        "caps": _caps,
        "lost": st.sampled_from(["", "n1", "y"]),
    }
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_case, _stricter, st.sets(st.sampled_from(sorted(_relaxers)), max_size=3), st.data())
def test_no_option_makes_a_failed_or_inconclusive_report_passed_unnamed(case, stricter, relaxers, data):
    default = report_of(**case, options=Options())
    asked = report_of(**case, options=Options(**stricter))
    if default.verdict != "PASSED":
        assert asked.verdict != "PASSED"
    milder = {name: data.draw(_relaxers[name]) for name in sorted(relaxers)}
    relaxed = report_of(**case, options=Options(**{**stricter, **milder}))
    if default.verdict == "PASSED" or relaxed.verdict != "PASSED":
        return
    lines = verdict_lines.render(relaxed).splitlines()
    for before, pair, line in zip(default.pairs, relaxed.pairs, lines, strict=True):
        if before.verdict != "PASSED":
            assert pair.relaxed and all(text in line for text in pair.relaxed), (milder, line)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_case, _stricter, st.integers(0, 5), st.sampled_from([0.5, 100.0]))
def test_options_of_values_never_speak_to_simulator_against_board(case, stricter, digits, atol):
    before = {(p.a, p.b): p for p in report_of(**case, options=Options()).pairs}
    options = Options(**{**stricter, "digits": digits, "atol": atol, "max_lsb": 255})
    for pair in report_of(**case, options=options).pairs:
        if (pair.a, pair.b) == ("simulator", "board"):
            held = before[pair.a, pair.b]
            assert (pair.verdict, pair.gate, pair.coverage) == (held.verdict, held.gate, held.coverage)
