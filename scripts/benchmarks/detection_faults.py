"""Seeded faults, one or two, planted at nodes of real networks: detected, located, explained?"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from qverify.report.document import Report
from qverify_agents.boards.faulty_runtime import KNOWN, WITHHELD

from benchmarks.detection_explained import explain, names
from benchmarks.detection_subjects import Subject

LINK_FAULTS = ("drop", "flip", "insert", "duplicate", "reorder")  # those a run survives
TRIES, DOUBLE_EVERY, LINK_EVERY, SEEDS = 40, 5, 7, 4
NEED_FLOATS = ("nan", "nan_scrub")
PLACES = {  # kinds that only some ops can have
    "resize_offset": ("resize_nearest", "resize_linear"),
    "resize_mode": ("resize_nearest",),
    "pool_count": ("average_pool",),
    "lut_offset": ("lookup", "softmax"),
    "lut_sign": ("lookup", "softmax"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    seed: int
    node: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}@{self.node}"


@dataclass(slots=True)
class Plant:
    """What was planted and what came of it. changed: the first of these nodes, in running order, really gave other bytes."""

    number: int
    subject: str
    source: str
    faults: list[Fault]
    link: str = ""
    changed: bool = False
    detected: bool = False
    located: bool = False
    both: bool | None = None  # of two faults that do not feed one another: the second is shown as well
    struck: Fault | None = None  # of two: the one whose node must be blamed
    explanations: list[set[str]] | None = None
    causes: set[str] = field(default_factory=set)
    candidates: set[str] = field(default_factory=set)
    unconfirmed: str = ""  # why triage confirmed none of them
    right_again: bool = False  # of a withheld kind that is explained
    verdict: str = ""
    blame: str = ""

    @property
    def fault(self) -> Fault:
        return self.struck or self.faults[0]

    @property
    def explained(self) -> bool | None:
        wanted = names(self.fault.kind)
        return None if self.explanations is None else any(wanted & group for group in self.explanations)

    def __str__(self) -> str:
        planted = " | ".join(map(str, self.faults))
        return (
            f"--run {self.number}: {self.subject} on {self.source}: {planted} {self.link}-> {self.verdict} {self.blame}"
        )


class Refused(Exception):
    """The runtime says that this fault cannot strike there."""


@dataclass(slots=True)
class Planter:
    seed: int
    subjects: list[Subject]
    healthy: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    homeless: dict[str, str] = field(default_factory=dict)  # kinds that found no node, and why

    def run(self, number: int) -> Plant:
        """The planting of this number, the same whichever others run. Every third is of a withheld kind."""
        rng = random.Random(f"{self.seed} fault {number}")
        withheld = number % 3 == 2
        kinds = list(WITHHELD) if withheld else [k for k in KNOWN if k not in NEED_FLOATS]
        random.Random(f"{self.seed} kinds").shuffle(kinds)
        first = number // 3 if withheld else number - number // 3
        for step in range(len(kinds)):
            kind = kinds[(first + step) % len(kinds)]
            if (plant := self._planted(rng, number, kind)) is not None:
                return plant
            self.homeless[kind] = "no node of these networks takes it"
        raise SystemExit("no network takes any fault")

    def _planted(self, rng: random.Random, number: int, kind: str) -> Plant | None:
        """A draw that the runtime does not refuse, or None."""
        ops = PLACES.get(kind)
        for _ in range(TRIES):
            fitting = [s for s in self.subjects if not ops or any(n.op in ops for n in _nodes(s))]
            if not fitting:
                return None
            subject = rng.choice(fitting)
            node = rng.choice([n.name for n in _nodes(subject) if not ops or n.op in ops])
            plant = Plant(
                number, subject.name, rng.choice(subject.sources(SEEDS)), [Fault(kind, rng.randrange(1 << 16), node)]
            )
            if number % LINK_EVERY == 0:
                link = rng.choice(LINK_FAULTS)
                plant.link = f"&link_fault={link}&link_seed={rng.randrange(1 << 20)}&link_probability=0.01"
            try:
                self._alone(subject, plant)
                if number % DOUBLE_EVERY == 0:
                    self._with_another(subject, plant, rng)
                plant.right_again = plant.fault.kind in WITHHELD and self._right_again(subject, plant)
                return plant
            except Refused:
                continue
        return None

    def _alone(self, subject: Subject, plant: Plant) -> None:
        report, digests = self._judged(subject, plant)
        unit = subject.unit_of(plant.faults[0].node)
        plant.changed = self._differs(subject, plant.source, digests)
        plant.located = _blames(report, unit)

    def _right_again(self, subject: Subject, plant: Plant) -> bool:
        """Whether a cause that was said gives every byte of two other frames, too: on a small tensor the fault of a withheld
        kind can be that of a known one."""
        causes = set(plant.causes)
        for source in [s for s in subject.sources(SEEDS) if s != plant.source][:2] if causes else []:
            other = Plant(plant.number, subject.name, source, plant.faults)
            self._judged(subject, other)
            causes &= other.causes
        return bool(causes)

    def _with_another(self, subject: Subject, plant: Plant, rng: random.Random) -> None:
        """A second fault, tried alone first, so that it is known which of the two the bytes tell of."""
        kind = rng.choice([k for k in KNOWN if k not in NEED_FLOATS])
        others = [n.name for n in _nodes(subject) if n.name != plant.faults[0].node]
        if not others:
            return
        second = Plant(
            plant.number, subject.name, plant.source, [Fault(kind, rng.randrange(1 << 16), rng.choice(others))]
        )
        try:
            self._alone(subject, second)
        except Refused:
            return
        order = [n.name for n in subject.graph.nodes]
        parts = sorted(
            [(plant.faults[0], plant.changed), (second.faults[0], second.changed)], key=lambda p: order.index(p[0].node)
        )
        struck = [fault for fault, changed in parts if changed]
        striking = [fault.node for fault in struck]
        plant.faults = [fault for fault, _ in parts]
        report, digests = self._judged(subject, plant)
        plant.changed = self._differs(subject, plant.source, digests)
        if striking:
            plant.struck = struck[0]
            plant.located = _blames(report, subject.unit_of(striking[0]))
        if len(striking) == 2 and not _feeds(subject, *striking):
            plant.both = plant.located and subject.unit_of(striking[1]) in _failing(report)

    def _judged(self, subject: Subject, plant: Plant) -> tuple[Report, dict[str, str]]:
        prepared = subject.inputs(plant.source)
        late = any(f.kind == "stale_frame" for f in plant.faults)
        before = subject.inputs(f"random:{SEEDS}") if late else None
        asked = quote("|".join(map(str, plant.faults)), safe="/:@| ")
        uri = f"faulty:local?fault={asked}{plant.link}"
        report, recording, said = subject.on(uri, prepared, before, explain)
        plant.explanations, plant.causes = (said.families, said.causes) if said else (None, set())
        plant.candidates, plant.unconfirmed = (said.candidates, said.why) if said else (set(), "")
        if "QVRT_FAULT=" in recording.why:
            raise Refused(recording.why)
        plant.verdict, plant.detected = report.verdict, report.verdict != "PASSED"
        plant.blame = "" if report.blame is None else f"{report.blame.side} {report.blame.node}"
        return report, recording.digests

    def _differs(self, subject: Subject, source: str, digests: dict[str, str]) -> bool:
        """From what a healthy board gives."""
        key = (subject.name, source)
        if key not in self.healthy:
            self.healthy[key] = dict(subject.on("local", subject.inputs(source))[1].digests)
        return digests != self.healthy[key]


def _nodes(subject: Subject) -> list[Any]:
    """Those with a tensor that is compared."""
    return [n for n in subject.graph.nodes if not subject.graph.tensors[n.outputs[0]].interior]


def _blames(report: Report, unit: str) -> bool:
    return report.blame is not None and (report.blame.side, report.blame.node) == ("board", unit)


def _failing(report: Report) -> list[str]:
    """Every node that fails forced on the board, which `blamed` does not list."""
    pairs = [p for p in report.pairs if (p.a, p.b) == ("simulator", "board")]
    return [t.node for p in pairs for t in p.tensors if t.forced is not None and t.forced.verdict == "FAILED"]


def _feeds(subject: Subject, first: str, second: str) -> bool:
    """Whether anything of the first node reaches the second."""
    reached = {first}
    for node in subject.graph.nodes:
        if reached & {n for n in node.inputs if n is not None}:
            reached |= set(node.outputs)
    return second in reached
