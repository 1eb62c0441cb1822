"""Experiments as a capture keeps them: it answers what was asked of the board before, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from qverify_agents.errors import LinkError

from qverify.errors import BadFileError
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array
from qverify.triage.case import Case
from qverify.triage.experiments import DRAWS, MAX_EXPERIMENTS, NoOtherModel
from qverify.triage.probe_models import ProbeModel
from qverify.triage.probes import unpack_output

KEYS = {"tensor": str, "kind": str, "seed": int, "inputs": dict, "board": str}
PROBE_KEYS = KEYS | {"shape": str, "output": str}


def experiment_rows(explained: list[Any], frame: int) -> list[dict[str, Any]]:
    """Returns what a capture keeps: the experiments on single nodes of this frame, and probes. explained: of
    explain_blame."""
    return [
        {"tensor": one.tensor, "kind": run.kind, "seed": run.seed, "inputs": run.inputs, "board": run.board}
        | ({"shape": run.shape, "output": run.output} if run.place == "probe" else {})
        for one in explained
        if one.explanation is not None and one.frame == frame
        for run in one.explanation.experiments
        if run.place in ("node", "probe")
    ]


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A unit that ran on the captured board. digest: of its output."""

    digest: str

    def fetch(self) -> Array:
        raise LinkError("the capture keeps digests of experiments, not their outputs")


class CapturedExperiments:
    """An ExperimentBoard of a capture's rows. Raises BadFileError for rows that are not as experiment_rows writes
    them."""

    why_not: str = ""
    most: int
    until: float = inf

    def __init__(self, folder: str, rows: list[Any]):
        self._folder = folder
        self._kept: dict[tuple[str, str, int], tuple[Mapping[str, str], str]] = {}
        self._probes: dict[tuple[str, str, str, int], Mapping[str, Any]] = {}
        for row in rows:
            self._add(folder, row)
        tensors = [tensor for tensor, _, _ in self._kept]
        self.most = min(MAX_EXPERIMENTS, max((tensors.count(t) for t in set(tensors)), default=0))

    def _add(self, folder: str, row: Any) -> None:
        if (
            _has(row, PROBE_KEYS)
            and (probe := (row["tensor"], row["shape"], row["kind"], row["seed"])) not in self._probes
        ):
            self._probes[probe] = row
            return
        key = (row["tensor"], row["kind"], row["seed"]) if _has(row, KEYS) else None
        if key is None or key in self._kept:
            raise BadFileError(
                f"{folder}: {'two rows of one experiment' if key else 'an experiment that is malformed'}"
            )
        self._kept[key] = row["inputs"], row["board"]

    def seeds(self, case: Case, kind: str, turn: int) -> list[int]:
        """Returns the seeds that were run in this round. Raises LinkError where there are none."""
        kept = [s for tensor, k, s in self._kept if (tensor, k) == (case.output, kind)]
        seeds = [s for s in kept if (s - 1) // DRAWS == turn]
        if not seeds:
            raise LinkError(f"the capture has no experiment of the kind {kind} on {case.output}")
        return seeds

    def cost(self, case: Case) -> str:
        """Returns "": nothing is transferred."""
        return ""

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> KeptRun:
        """Returns the answer of the captured board to these inputs."""
        digests = {n: tensor_digest(v) for n, v in inputs.items()}
        if digests == {n: tensor_digest(v) for n, v in case.inputs.items()} and not self._asked(case, digests):
            return KeptRun(tensor_digest(case.recorded))  # experiments on a node were run because it gave this
        answers = self._asked(case, digests)
        if not answers:
            raise LinkError(f"the capture has no experiment with these inputs on {case.output}")
        return KeptRun(answers[0])

    def _asked(self, case: Case, digests: Mapping[str, str]) -> list[str]:
        return [b for (tensor, _, _), (given, b) in self._kept.items() if tensor == case.output and given == digests]

    def run_probe(self, case: Case, model: ProbeModel, probe_case: Case, kind: str, seed: int) -> Array:
        """Returns the captured board's output of this probe. Raises NoOtherModel where it was not run, BadFileError where
        the row contradicts itself."""
        row = self._probes.get((case.output, model.shape, kind, seed))
        if row is None or row["inputs"] != {n: tensor_digest(v) for n, v in probe_case.inputs.items()}:
            raise NoOtherModel(f"the capture has no probe of {case.output} at {model.shape}")
        try:
            output = unpack_output(row["output"], probe_case.recorded)
        except ValueError as error:
            raise BadFileError(f"{self._folder}: the probe of {case.output} at {model.shape} has {error}") from error
        if tensor_digest(output) != row["board"]:
            raise BadFileError(f"{self._folder}: the probe of {case.output} at {model.shape} does not match its digest")
        return output

    def run_network(self, case: Case, seed: int, names: frozenset[str]) -> Case:
        """Raises LinkError: runs of the whole network are not kept."""
        raise LinkError("a capture keeps no experiments on the whole network")


def _has(row: Any, keys: Mapping[str, type]) -> bool:
    return isinstance(row, dict) and row.keys() == keys.keys() and all(type(row[k]) is keys[k] for k in keys)
