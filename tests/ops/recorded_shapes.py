"""Computes checksums of what the pages of verifier/qverify/triage/hypotheses compute at nodes of asymmetric shapes.

`python -m tests.ops.recorded_shapes` records them in hypotheses_of_shapes.txt (with names of ops, only these); run it
after a wanted change of a page, and read which lines of the file it changed. `--lines` prints what they are made of.

tests/ops/recorded_hypotheses.py tries every page at few units; this tries the pages of some ops at units of more shapes
(tests/ops/asymmetric_nodes.py), at every output, and computes each fault on other inputs, too."""

from __future__ import annotations

import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from qverify.arithmetic.workers import one_blas_thread
from qverify.model_bin.units import units
from qverify.sides.simulator import Simulator
from qverify.triage.case import Case
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import HypothesisPage, ops_of, pages_of

from tests.ops.asymmetric_nodes import NODES
from tests.ops.random_nodes import RandomNodes
from tests.ops.recorded_hypotheses import Line, Log, NotingArray, differing, fold, record_or_print, text_of
from tests.ops.records import read_record
from tests.ops.test_forensics_of_ops import third

Array = Any
FILE = Path(__file__).parent / "hypotheses_of_shapes.txt"
ALL, ONE_IN = 40, 16  # so many faults of a page are computed, then one in ONE_IN of those that differ in numbers only
MAX_COMPARED = 700  # arrays of a page at a case
NUMBER = re.compile(r"\d+")


def cases_of(stem: str) -> Iterator[tuple[str, Case]]:
    """Yields the name and the case of each output of the op's asymmetric nodes; 30 % of its elements are others."""
    random = RandomNodes("ref-exact", zlib.crc32(stem.encode()))
    NODES[stem](random)
    graph = random.graph()
    given = SimpleNamespace(arrays=lambda: random.values, sha256="")
    held = {**random.values, **Simulator(graph).run(given).tensors}  # type: ignore[arg-type]
    for number, unit in enumerate(units(graph)):
        for output in unit.outputs:
            recorded = np.asarray(third(1)(held[output].copy()), order="C")
            if recorded.dtype == bool:
                recorded.reshape(-1)[1::3] ^= True
            yield f"{number} {output}", Case(graph, unit, {n: held[n] for n in unit.inputs}, output, recorded, held.get)


def fitting_everything(node: Case, log: Log) -> Case:
    """Returns the case with a record that equals everything, and that notes what it is compared with."""
    recorded = node.recorded.view(NotingArray)
    recorded.log = log
    return replace(node, recorded=recorded, cache={}, states={})


def line_of(page: HypothesisPage, node: Case) -> Line:
    """Returns what a page compares with a record that equals everything, and what it yields: all texts and costs, and
    the outputs of the first ALL faults, of one of each kind, and of one in ONE_IN of the others."""
    log = Log(agrees=True)
    noting, kinds, line = fitting_everything(node, log), set[str](), log.line
    elsewhere = noting.on_noise(1)
    try:
        for number, variant in enumerate(page.variants(noting)):
            line.note(f"{variant.text} {variant.bits:.3f} {variant.part} {variant.part_bits:.3f} {variant.copied}")
            if len(line.items) > MAX_COMPARED:
                break
            kind = NUMBER.sub("", variant.text)
            if number >= ALL and kind in kinds and number % ONE_IN:
                continue
            kinds.add(kind)
            if variant.free is not None:
                line.add(variant.free)
            for inputs in (noting, elsewhere):
                try:
                    line.add(variant.make(inputs))
                except DOES_NOT_FIT as error:
                    line.note(type(error).__name__)
    except DOES_NOT_FIT as error:
        line.note(type(error).__name__)
    line.note(str(noting.number_tried))
    return line


def lines_of(stem: str) -> dict[str, str]:
    """Returns the text of each line of an op by its name: the node, the output, and the page."""
    lines: dict[str, str] = {}
    with np.errstate(all="ignore"), warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        for name, case in cases_of(stem):
            for page in pages_of(case):
                if ops_of(page) is not None:
                    line = line_of(page, case)
                    if line.items:
                        lines[f"{name} {page.NAME}"] = text_of(line, page.NAME)
    return lines


def recorded() -> dict[str, list[str]]:
    """Returns the recorded lines of each op."""
    return read_record(FILE)


def changed(stem: str) -> list[str]:
    """Returns the names of the lines of an op that are not as recorded."""
    return differing(recorded().get(stem, ()), fold(lines_of(stem)))


if __name__ == "__main__":
    record_or_print(sys.argv[1:], FILE, NODES, lines_of)
