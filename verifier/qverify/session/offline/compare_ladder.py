"""Compares the sides of one run in a vendor's folder, rung by rung: the float network, the toolkit's simulator, the
board."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from qverify.compare.combine_reports import combine
from qverify.compare.gate_text import parse_gates
from qverify.compare.options import Options
from qverify.compare.vendor_criteria import CRITERIA
from qverify.profiles import board_rung, rungs
from qverify.report.document import Pair, ReportDocument
from qverify.report.side_names import named
from qverify.session.offline.compare_dumps import compare_dumps
from qverify.session.offline.dump_pair import DumpPair
from qverify.vendor_files.vendor_dump import Rung
from qverify.vendor_names import known_spelling

FLOAT_GATE = "cosine:0.98"  # between a float network and a quantized one, of a maker without criteria


def compare_ladder(dumps: DumpPair, options: Options) -> ReportDocument:
    """Returns one report with a pair for each rung, in the order of the ladder, and one from its first side to its last.

    dumps: the folder is dumps.a; dumps.b is not read. options: they judge every rung; without gates of the user, a rung
    from the float network is judged by the criteria of the folder's maker. Raises UsageError if the folder holds no two
    sides of one run, BadFileError for a dump that cannot be read."""
    profile, found = rungs(dumps.a, dumps.profile_a)
    ends = [(found[0], found[-1])] if len(found) > 2 else []
    reports = [
        name_sides(compare_dumps(_pair(dumps, profile, a, b), _judging(options, profile, a)), a, b)
        for a, b in [*pairwise(found), *ends]
    ]
    report = combine(reports)
    report.notes = list(dict.fromkeys(report.notes))
    board = board_rung(profile)
    if board and board not in {rung.name for rung in found}:
        report.caveats.append(f"no board: {dumps.a} has no {board}")
    report.notes.insert(0, f"{profile}: {', '.join(rung.name for rung in found)} of {dumps.a}, in this order")
    report.findings = [finding for each in reports for finding in each.findings]
    return report


def _pair(dumps: DumpPair, profile: str, a: Rung, b: Rung) -> DumpPair:
    return replace(dumps, a=a.path, b=b.path, profile_a=profile, profile_b=profile, side_a=a.side, side_b=b.side)


def _judging(options: Options, profile: str, a: Rung) -> Options:
    """Returns the options for a rung that begins at side `a`."""
    if not a.is_float or options.gates or options.digits_given:
        return options
    maker = known_spelling(profile, CRITERIA)
    if maker not in CRITERIA:
        return replace(options, **parse_gates([FLOAT_GATE]))
    return replace(options, criteria=maker, **parse_gates(CRITERIA[maker].gates))


def name_sides(report: ReportDocument, a: Rung, b: Rung) -> ReportDocument:
    """Gives every part of a report of A and B the names of two rungs, in place, and returns the report."""
    names = {"A": a.name, "B": b.name}
    for pair in report.pairs:
        _name_pair(pair, names)
    for blame in report.blamed:
        blame.side = names.get(blame.side, blame.side)
        blame.why = re.sub(r"\b[AB](?='s recorded inputs)", lambda found: f"the {names[found[0]]}", blame.why)
    report.notes = [note for note in report.notes if not note.startswith("A is ")]
    for side in report.sides:
        side["name"] = names.get(side["name"], side["name"])
    return report


def _name_pair(pair: Pair, names: dict[str, str]) -> None:
    pair.a, pair.b = names.get(pair.a, pair.a), names.get(pair.b, pair.b)
    pair.why = re.sub(r"(?<= is missing in )[AB](?=: )", lambda found: names[found[0]], pair.why)
    for missing in (*pair.coverage.missing, *pair.coverage.not_offered):
        missing.why = missing.why.replace(
            f"{missing.side} does not offer", f"{named(names.get(missing.side, missing.side))} does not offer"
        )
        missing.side = names.get(missing.side, missing.side)
    for row in pair.tensors:
        if row.forced is not None:
            row.forced.by, row.forced.on = (
                names.get(row.forced.by, row.forced.by),
                names.get(row.forced.on, row.forced.on),
            )
            row.forced.at_fault = names.get(row.forced.at_fault, row.forced.at_fault)
