"""Lists the probe models of the units of tests/ops/cases: the same op in other shapes.

`python -m tests.ops.recorded_probes` records them in probes_of_ops.txt; run it after a wanted change, and read which
lines of the file it changed. A line is of one unit: what its probes cost in bytes, how many they are, and a checksum of
their lines, which `--lines` with names of ops prints: the shapes in words (= if the kernel takes the same path as in the
unit's own shape), the size in bytes, and a checksum of the model and its inputs."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import Unit, units
from qverify.triage.case import Case
from qverify.triage.probe_models import ProbeModel, probe_models
from qverify.triage.probes import cost_bytes

from tests.ops.case_files import FILES
from tests.ops.recorded_hypotheses import graphs_of
from tests.ops.records import read_record, write_record

Array = Any
FILE = Path(__file__).parent / "probes_of_ops.txt"


def healthy_case(graph: Graph, unit: Unit, held: Mapping[str, Array]) -> Case:
    """Returns a unit whose recorded output is the healthy one."""
    output = unit.outputs[0]
    return Case(graph, unit, {n: held[n] for n in unit.inputs}, output, held[output], held.get)


def cases_of(stem: str) -> Iterator[tuple[str, Case]]:
    """Yields the name and the case of every unit of the op."""
    for name, graph, held in graphs_of(stem):
        for number, unit in enumerate(units(graph)):
            if any(node.op == stem for node in unit.nodes):
                yield f"{name}.{number}", healthy_case(graph, unit, held)


def describe_probe(probe: ProbeModel) -> str:
    """Returns the line of one probe."""
    case = probe.case
    checksum = zlib.crc32(encode(case.graph))
    for name, values in sorted(case.inputs.items()):
        checksum = zlib.crc32(np.ascontiguousarray(values).tobytes(), zlib.crc32(name.encode(), checksum))
    return f"{'=' * probe.alike}{probe.shape}; {probe.size_bytes} {checksum:08x}"


def probes_of(stem: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of each unit of an op that has probes, with their cost in bytes, and the lines of its probes."""
    for name, case in cases_of(stem):
        with np.errstate(all="ignore"):
            probes = [*probe_models(case)]
            if probes:
                yield f"{name} {cost_bytes(case)}", [describe_probe(probe) for probe in probes]


def lines_of(stem: str) -> list[str]:
    """Returns the lines of an op as they are recorded."""
    return [fold(unit, probes) for unit, probes in probes_of(stem)]


def fold(unit: str, probes: list[str]) -> str:
    return f"{unit}: {len(probes)} {zlib.crc32(chr(10).join(probes).encode()):08x}"


def recorded() -> dict[str, list[str]]:
    """Returns the recorded lines by op."""
    return read_record(FILE)


if __name__ == "__main__":
    if "--lines" in sys.argv:
        for stem in (stem for stem in FILES if stem in sys.argv):
            for unit, probes in probes_of(stem):
                print(stem, unit, *probes, sep="\n ")
    else:
        write_record(FILE, {stem: lines_of(stem) for stem in FILES})
