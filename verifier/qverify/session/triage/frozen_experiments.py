"""Runs a failing board on other inputs, and finds the tensors that do not change with them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from qverify_agents.errors import LinkError

from qverify.compare.frozen import OutputHistory
from qverify.errors import QVerifyError
from qverify.inputs.random_inputs import random_inputs
from qverify.plural import count
from qverify.report.facts import Finding
from qverify.session.host_sides import Watch
from qverify.session.job import Job
from qverify.session.triage.board_experiments import NETWORK_SEED
from qverify.session.triage.explain_nodes import ExplainedOutput
from qverify.tensors.recording import Recording

EXPERIMENTS = 6  # runs of the whole network on different inputs, the recorded one included


@dataclass(frozen=True, slots=True)
class Frozen:
    """The findings of the runs on other inputs. tensors: those that the board gave with the same bytes each time although the
    host's differ, in running order. runs: number of runs. findings: the same in words, for the report."""

    tensors: tuple[str, ...] = ()
    runs: int = 0
    findings: tuple[Finding, ...] = ()

    def explain(self, output: ExplainedOutput) -> ExplainedOutput:
        """Returns the explanation of a blamed output: that it is frozen, if it is; else the same."""
        if output.tensor not in self.tensors:
            return output
        return replace(output, explanation=None, why=self.causes[output.tensor], cost="")

    @property
    def causes(self) -> dict[str, str]:
        """The cause of each frozen tensor's difference, in words."""
        runs = count(self.runs, "experiment")
        return {n: f"EXPLAINED: {n} does not change with the input in {runs}: frozen" for n in self.tensors}


def find_frozen(job: Job, recordings: Mapping[str, Recording], deadline: float, watch: Watch | None = None) -> Frozen:
    """Runs all sides on other inputs, as long as a tensor is the same each time. recordings: those of the run that
    failed. deadline: time of time.monotonic() after which no run starts. Values of that run can no longer be pulled from
    a board that runs qvrt."""
    history, runs = OutputHistory(), 1
    history.add(recordings)
    while runs < EXPERIMENTS and time.monotonic() < deadline:
        try:
            ran, _, unreached = job.record(random_inputs(job.models.graph, NETWORK_SEED + runs), watch)
        except (QVerifyError, LinkError):
            break
        job.disconnect_if_broken(ran)
        if unreached or ran.recordings["board"].state != "complete":
            break
        history.add(ran.recordings)
        runs += 1
        if not history.frozen():
            return Frozen()
    if runs < EXPERIMENTS:
        return Frozen()
    return Frozen(tuple(history.frozen()), runs, tuple(history.find_frozen("FAILED", "experiment")))


def needs_frozen(explained: Iterable[ExplainedOutput]) -> bool:
    """Returns whether an output of these is not explained by a confirmed cause."""
    return any(output.explanation is None or not output.explanation.confirmed for output in explained)
