"""Plants some faults of every page of hypotheses on a board within this process, and notes what triage says of it.

`python -m tests.ops.recorded_explanations` records it in explanations_of_faults.txt (with names of pages, only these);
run it after a wanted change, and read which lines of the file it changed. Of each fault: the page, the op, the unit,
and the fault in words; then the verdict, and the numbers of causes with a checksum of all that is said and of every
experiment (`--runs PAGE ...` prints these: elements that differ, causes that stand and that fell)."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from qverify.renderers.fault_explanation import details, to_json, verdict
from qverify.triage import fault_search
from qverify.triage.case import Case, element_bits
from qverify.triage.cause_kind import describe_kind
from qverify.triage.experiments import NoOtherModel, predict
from qverify.triage.fault import DOES_NOT_FIT, Candidate, Fault
from qverify.triage.forensics import FaultExplanation, explain_fault
from qverify.triage.hypotheses import FaultVariant, HypothesisPage, pages, pages_of
from qverify.triage.probes import list_constants

from tests.ops.case_files import FILES
from tests.ops.recorded_hypotheses import INEXACT, Log, NotingArray
from tests.ops.recorded_probes import cases_of
from tests.ops.records import read_record, write_record
from tests.ops.test_forensics_of_ops import third
from tests.plain.experiment_boards import FaultyUnit, random_like
from tests.plain.forensic_units import generator

Array = Any
FILE = Path(__file__).parent / "explanations_of_faults.txt"
MIN_ELEMENTS, MAX_ELEMENTS = 30, 1500  # of the output of a unit at which a fault is planted
MIN_DIFFERING, MIN_VALUES = 5, 3  # elements that a planted fault changes, and values that it gives there
PLANTS = 3  # of a page
VARIANTS = 6  # of a page, of which one is planted


def faults_of(page: HypothesisPage, node: Case) -> Iterator[FaultVariant]:
    """Yields the faults of a page that change the unit's output, whatever the board recorded."""
    recorded = third(1)(node.recorded.copy()).view(NotingArray)
    recorded.log = Log(agrees=True)
    with np.errstate(all="ignore"), suppress(*DOES_NOT_FIT):
        for variant in page.variants(replace(node, recorded=recorded, cache={}, states={})):
            output = predict(node, Candidate(Fault(page.NAME, variant.text, 0.0), variant))
            if output is not None and _is_distinct(element_bits(output), element_bits(node.healthy)):
                yield variant


def _is_distinct(output: Array, healthy: Array) -> bool:
    """Returns whether the fault shows in several elements and values, so that few others do the same."""
    differing = output != healthy
    return differing.sum() >= MIN_DIFFERING and np.unique(output[differing]).size >= MIN_VALUES


def planted(page: HypothesisPage, node: Case, text: str) -> FaultExplanation:
    """Returns what triage says of a board with this fault, on which the unit runs in other shapes, too."""
    fault = next(variant for variant in faults_of(page, node) if variant.text == text)

    candidate = Candidate(Fault(page.NAME, text, 0.0), fault)

    def make(case: Case) -> Array:
        output = predict(case, candidate)
        return case.healthy if output is None else output  # the fault cannot occur on all inputs

    def make_elsewhere(case: Case) -> Array:
        counterparts = (other for other in faults_of(page, case) if _key(node, other) == _key(node, fault))
        output = predict(case, Candidate(candidate.cause, next(counterparts, fault)))
        if output is None:
            raise NoOtherModel("the planted fault cannot occur in this shape")
        return output

    def others(seed: int) -> dict[str, Array]:
        return {n: random_like(v, generator(seed)) for n in node.graph.tensors if (v := node.board(n)) is not None}

    board = FaultyUnit(make, elsewhere=make_elsewhere, others=others)
    with mock.patch.object(fault_search, "ENOUGH_S", inf), np.errstate(all="ignore"):
        return explain_fault(replace(node, recorded=make(node), cache={}), 600.0, board=board)


def _key(node: Case, fault: FaultVariant) -> tuple[object, ...]:
    """Returns what a fault has in common with its counterparts in other shapes: its kind, and the numbers that no shape
    changes."""
    return (*describe_kind(node, Fault("", fault.text, 0.0)), tuple(list_constants(fault.text)))


def describe(found: FaultExplanation) -> list[str]:
    """Returns the verdict, and the numbers of causes with a checksum of everything that is said, experiments included."""
    said = to_json(found)
    del said["seconds"]
    checksum = zlib.crc32(json.dumps([details(found), said], sort_keys=True).encode())
    sums = f"{len(found.exact)}+{len(found.general)} of {found.tried}, {found.evidence_bits:.0f} bits, {checksum:08x}"
    return [verdict(found), sums]


def describe_runs(found: FaultExplanation) -> list[str]:
    return [f"{run.place} {run.kind} {run.changed} {run.stood}-{run.fell}" for run in found.experiments]


@dataclass(frozen=True)
class Plant:
    """Where a fault is planted: the page, the op, the name of the unit, and the fault in words."""

    page: str
    stem: str
    unit: str
    text: str

    def __str__(self) -> str:
        return f"{self.page} | {self.stem} | {self.unit} | {self.text}"

    def explain(self) -> list[str]:
        """Returns the lines of the explanation."""
        return describe(self.find())

    def find(self) -> FaultExplanation:
        """Returns what triage says of the fault."""
        page = next(page for page in pages() if self.page == page.NAME)
        node = next(case for name, case in cases_of(self.stem) if name == self.unit)
        return planted(page, node, self.text)


def plants(names: Collection[str]) -> Iterator[Plant]:
    """Yields PLANTS faults of each page of these names that has so many. Checksums of the page's name choose the units among
    those of all ops, and the faults among the first of a unit."""
    everywhere = [(stem, unit, case) for stem in FILES for unit, case in cases_of(stem) if _is_suitable(case)]
    for page in (page for page in pages() if page.NAME in names and page.NAME not in INEXACT):
        places = [place for place in everywhere if page in pages_of(place[2])]
        yield from dict.fromkeys(filter(None, (_plant(page, places, number) for number in range(PLANTS))))


def _plant(page: HypothesisPage, places: list[tuple[str, str, Case]], number: int) -> Plant | None:
    checksum = zlib.crc32(f"{page.NAME} {number}".encode())
    first = checksum % max(1, len(places))
    for stem, unit, case in (*places[first:], *places[:first]):
        faults = [*islice(faults_of(page, case), VARIANTS)]
        if faults:
            return Plant(page.NAME, stem, unit, faults[checksum % len(faults)].text)
    return None


def _is_suitable(case: Case) -> bool:
    return case.spec.dtype != "bool" and MIN_ELEMENTS <= case.recorded.size <= MAX_ELEMENTS


def recorded() -> dict[Plant, list[str]]:
    """Returns the recorded lines by where a fault was planted."""
    return {Plant(*name.split(" | ", 3)): lines for name, lines in read_record(FILE).items()}


def record(names: Collection[str]) -> None:
    """Writes FILE. names: the pages whose faults are planted anew; all if there are none."""
    every = [page.NAME for page in pages()]
    of = {plant: lines for plant, lines in recorded().items() if plant.page not in names} if names else {}
    for plant in plants(names or every):
        of[plant] = plant.explain()
        print(plant, *of[plant][:1], sep="\n ", flush=True)
    order = sorted(of, key=lambda plant: every.index(plant.page))
    write_record(FILE, {str(plant): of[plant] for plant in order})


if __name__ == "__main__":
    if "--runs" in sys.argv:
        for plant in (plant for plant in recorded() if plant.page in sys.argv):
            print(plant, *describe_runs(plant.find()), sep="\n ")
    else:
        record(sys.argv[1:])
