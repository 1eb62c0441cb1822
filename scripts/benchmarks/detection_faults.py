"""Plants one or two seeded faults at nodes of real networks, and records whether they are detected, located,
explained."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from qverify.report.document import ReportDocument
from qverify_agents.boards.faulty_runtime import KNOWN, WITHHELD

from benchmarks.detection_explained import explain, families_of
from benchmarks.detection_subjects import Subject

LINK_FAULTS = ("drop", "flip", "insert", "duplicate", "reorder")  # link faults that a run survives
TRIES = 40  # draws of a node for one kind of fault
DOUBLE_EVERY, LINK_EVERY = 5, 7  # every so many plantings have a second fault, or a faulty link
SEEDS = 4  # random inputs of a network
NEED_FLOATS = ("nan", "nan_scrub")
PLACES = {  # kind of fault to the ops that can have it, if not all can
    "resize_offset": ("resize_nearest", "resize_linear"),
    "resize_mode": ("resize_nearest",),
    "pool_count": ("average_pool",),
    "lut_offset": ("lookup", "softmax"),
    "lut_sign": ("lookup", "softmax"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the faulty runtime, at one node."""

    kind: str
    seed: int
    node: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}@{self.node}"


@dataclass(slots=True)
class Plant:
    """One planting and its outcome.

    Attributes:
        number: the number that --run repeats.
        subject, source: name of the network and of its input.
        faults: the planted faults, in running order.
        link: options of the board's address for a faulty link, "" for none.
        changed: whether the first faulty node, in running order, computed other bytes.
        detected: whether the verdict is not PASSED.
        located: whether the board is blamed at the faulty node.
        both: whether the second of two independent faults is shown as well; None if there are no two.
        struck: of two faults, the one whose node must be blamed.
        explanations: families of the confirmed causes, None if the board is not blamed.
        causes: the confirmed causes as text.
        candidates: families that fit every byte but are not confirmed.
        unconfirmed: why triage confirmed none of the candidates.
        right_again: whether the explanation of a withheld fault also fits two other inputs.
    """

    number: int
    subject: str
    source: str
    faults: list[Fault]
    link: str = ""
    changed: bool = False
    detected: bool = False
    located: bool = False
    both: bool | None = None
    struck: Fault | None = None
    explanations: list[set[str]] | None = None
    causes: set[str] = field(default_factory=set)
    candidates: set[str] = field(default_factory=set)
    unconfirmed: str = ""
    right_again: bool = False
    verdict: str = ""
    blame: str = ""

    @property
    def fault(self) -> Fault:
        """The fault whose node must be blamed."""
        return self.struck or self.faults[0]

    @property
    def explained(self) -> bool | None:
        """Whether a confirmed cause names the fault; None if the board is not blamed."""
        right_families = families_of(self.fault.kind)
        return None if self.explanations is None else any(right_families & group for group in self.explanations)

    def __str__(self) -> str:
        planted = " | ".join(map(str, self.faults))
        return (
            f"--run {self.number}: {self.subject} on {self.source}: {planted} {self.link}-> {self.verdict} {self.blame}"
        )


class Refused(Exception):
    """Raised if the runtime reports that this fault is impossible at this node."""


@dataclass(slots=True)
class Planter:
    """Plants faults drawn by a seed.

    healthy: digests of a healthy board, by network and input. homeless: kinds of fault that no node can have, with the
    reason.
    """

    seed: int
    subjects: list[Subject]
    healthy: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    homeless: dict[str, str] = field(default_factory=dict)

    def run(self, number: int) -> Plant:
        """Makes the planting of this number, which does not depend on the others. Every third is of a withheld kind."""
        rng = random.Random(f"{self.seed} fault {number}")
        withheld = number % 3 == 2
        kinds = list(WITHHELD) if withheld else [k for k in KNOWN if k not in NEED_FLOATS]
        random.Random(f"{self.seed} kinds").shuffle(kinds)
        first = number // 3 if withheld else number - number // 3
        for step in range(len(kinds)):
            kind = kinds[(first + step) % len(kinds)]
            if (plant := self._try_kind(rng, number, kind)) is not None:
                return plant
            self.homeless[kind] = "no node of these networks takes it"
        raise SystemExit("no network takes any fault")

    def _try_kind(self, rng: random.Random, number: int, kind: str) -> Plant | None:
        """Returns a planting of this kind that the runtime does not refuse, or None if there is none in TRIES draws."""
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
                self._plant_alone(subject, plant)
                if number % DOUBLE_EVERY == 0:
                    self._plant_second(subject, plant, rng)
                plant.right_again = plant.fault.kind in WITHHELD and self._fits_other_inputs(subject, plant)
                return plant
            except Refused:
                continue
        return None

    def _plant_alone(self, subject: Subject, plant: Plant) -> None:
        """Runs the planting with a single fault and records its outcome."""
        report, digests = self._judge(subject, plant)
        unit = subject.unit_of(plant.faults[0].node)
        plant.changed = self._differs(subject, plant.source, digests)
        plant.located = _blames(report, unit)

    def _fits_other_inputs(self, subject: Subject, plant: Plant) -> bool:
        """Returns whether a confirmed cause also predicts every byte for two other inputs: on a small tensor a fault of
        a withheld kind can have the same effect as a known one."""
        causes = set(plant.causes)
        for source in [s for s in subject.sources(SEEDS) if s != plant.source][:2] if causes else []:
            repeated = Plant(plant.number, subject.name, source, plant.faults)
            self._judge(subject, repeated)
            causes &= repeated.causes
        return bool(causes)

    def _plant_second(self, subject: Subject, plant: Plant, rng: random.Random) -> None:
        """Adds a second fault. It is planted alone first, so that it is known which of the two changes bytes."""
        kind = rng.choice([k for k in KNOWN if k not in NEED_FLOATS])
        others = [n.name for n in _nodes(subject) if n.name != plant.faults[0].node]
        if not others:
            return
        second = Plant(
            plant.number, subject.name, plant.source, [Fault(kind, rng.randrange(1 << 16), rng.choice(others))]
        )
        try:
            self._plant_alone(subject, second)
        except Refused:
            return
        order = [n.name for n in subject.graph.nodes]
        parts = sorted(
            [(plant.faults[0], plant.changed), (second.faults[0], second.changed)], key=lambda p: order.index(p[0].node)
        )
        struck = [fault for fault, changed in parts if changed]
        striking = [fault.node for fault in struck]
        plant.faults = [fault for fault, _ in parts]
        report, digests = self._judge(subject, plant)
        plant.changed = self._differs(subject, plant.source, digests)
        if striking:
            plant.struck = struck[0]
            plant.located = _blames(report, subject.unit_of(striking[0]))
        if len(striking) == 2 and not _feeds(subject, *striking):
            plant.both = plant.located and subject.unit_of(striking[1]) in _failing(report)

    def _judge(self, subject: Subject, plant: Plant) -> tuple[ReportDocument, dict[str, str]]:
        """Runs the faulty board, records verdict and explanation, and returns the report and the board's digests."""
        prepared = subject.inputs(plant.source)
        late = any(f.kind == "stale_frame" for f in plant.faults)
        before = subject.inputs(f"random:{SEEDS}") if late else None
        fault_option = quote("|".join(map(str, plant.faults)), safe="/:@| ")
        uri = f"faulty:local?fault={fault_option}{plant.link}"
        report, recording, explanation = subject.run_board(uri, prepared, before, explain)
        plant.explanations, plant.causes = (explanation.families, explanation.causes) if explanation else (None, set())
        plant.candidates, plant.unconfirmed = (explanation.candidates, explanation.why) if explanation else (set(), "")
        if "QVRT_FAULT=" in recording.why:
            raise Refused(recording.why)
        plant.verdict, plant.detected = report.verdict, report.verdict != "PASSED"
        plant.blame = "" if report.blame is None else f"{report.blame.side} {report.blame.node}"
        return report, recording.digests

    def _differs(self, subject: Subject, source: str, digests: dict[str, str]) -> bool:
        """Returns whether the digests differ from those of a healthy board."""
        key = (subject.name, source)
        if key not in self.healthy:
            self.healthy[key] = dict(subject.run_board("local", subject.inputs(source))[1].digests)
        return digests != self.healthy[key]


def _nodes(subject: Subject) -> list[Any]:
    """Returns the nodes whose output is compared."""
    return [n for n in subject.graph.nodes if not subject.graph.tensors[n.outputs[0]].interior]


def _blames(report: ReportDocument, unit: str) -> bool:
    """Returns whether the report blames the board at this unit."""
    return report.blame is not None and (report.blame.side, report.blame.node) == ("board", unit)


def _failing(report: ReportDocument) -> list[str]:
    """Returns every node that fails forced on the board; the blame of the report names only the first."""
    pairs = [p for p in report.pairs if (p.a, p.b) == ("simulator", "board")]
    return [t.node for p in pairs for t in p.tensors if t.forced is not None and t.forced.verdict == "FAILED"]


def _feeds(subject: Subject, first: str, second: str) -> bool:
    """Returns whether the second node depends on the first."""
    reached = {first}
    for node in subject.graph.nodes:
        if reached & {n for n in node.inputs if n is not None}:
            reached |= set(node.outputs)
    return second in reached
