"""Experiments of triage in a capture: it has the board's results of the experiments that were run, and no others."""

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
from qverify.triage.packed_output import unpack_output
from qverify.triage.probe_models import ProbeModel

KEYS = {"tensor": str, "kind": str, "seed": int, "inputs": dict, "board": str}  # types of the values of a row
PROBE_KEYS = KEYS | {"shape": str, "output": str}


def experiment_rows(explained: list[Any], frame: int) -> list[dict[str, Any]]:
    """Returns the rows that a capture stores: the experiments on single nodes of this frame, and the probes. explained:
    the result of explain_blame."""
    return [
        {"tensor": output.tensor, "kind": run.kind, "seed": run.seed, "inputs": run.inputs, "board": run.board}
        | ({"shape": run.shape, "output": run.output} if run.place == "probe" else {})
        for output in explained
        if output.explanation is not None and output.frame == frame
        for run in output.explanation.experiments
        if run.place in ("node", "probe")
    ]


@dataclass(frozen=True, slots=True)
class CapturedUnitRun:
    """A run of a unit by itself on the captured board. digest: digest of its output."""

    digest: str

    def fetch(self) -> Array:
        """Raises LinkError: a capture has no outputs of experiments."""
        raise LinkError("the capture keeps digests of experiments, not their outputs")


class CapturedExperiments:
    """An ExperimentBoard that reads the results from a capture's rows. Raises BadFileError for rows that differ in form
    from those of experiment_rows."""

    why_not: str = ""
    most: int
    until: float = inf

    def __init__(self, folder: str, rows: list[Any]):
        self._folder = folder
        self._runs: dict[tuple[str, str, int], tuple[Mapping[str, str], str]] = {}  # tensor, kind, seed: inputs, output
        self._probes: dict[tuple[str, str, str, int], Mapping[str, Any]] = {}
        for row in rows:
            self._add(folder, row)
        tensors = [tensor for tensor, _, _ in self._runs]
        self.most = min(MAX_EXPERIMENTS, max((tensors.count(t) for t in set(tensors)), default=0))

    def _add(self, folder: str, row: Any) -> None:
        if (
            _has_form(row, PROBE_KEYS)
            and (probe := (row["tensor"], row["shape"], row["kind"], row["seed"])) not in self._probes
        ):
            self._probes[probe] = row
            return
        key = (row["tensor"], row["kind"], row["seed"]) if _has_form(row, KEYS) else None
        if key is None or key in self._runs:
            raise BadFileError(
                f"{folder}: {'two rows of one experiment' if key else 'an experiment that is malformed'}"
            )
        self._runs[key] = row["inputs"], row["board"]

    def seeds(self, case: Case, kind: str, turn: int) -> list[int]:
        """Returns the seeds that were run in round `turn`. Raises LinkError if there are none."""
        all_seeds = [s for tensor, k, s in self._runs if (tensor, k) == (case.output, kind)]
        seeds = [s for s in all_seeds if (s - 1) // DRAWS == turn]
        if not seeds:
            raise LinkError(f"the capture has no experiment of the kind {kind} on {case.output}")
        return seeds

    def cost(self, case: Case) -> str:
        """Returns "": nothing is transferred."""
        return ""

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> CapturedUnitRun:
        """Returns the captured board's result for these inputs. Raises LinkError if the capture has none."""
        digests = {n: tensor_digest(v) for n, v in inputs.items()}
        outputs = self._find_outputs(case, digests)
        if not outputs and digests == {n: tensor_digest(v) for n, v in case.inputs.items()}:
            return CapturedUnitRun(tensor_digest(case.recorded))  # the recorded run itself
        if not outputs:
            raise LinkError(f"the capture has no experiment with these inputs on {case.output}")
        return CapturedUnitRun(outputs[0])

    def _find_outputs(self, case: Case, digests: Mapping[str, str]) -> list[str]:
        """Returns the digests of the outputs of all experiments on this case with inputs of these digests."""
        runs = self._runs.items()
        return [output for (tensor, _, _), (inputs, output) in runs if tensor == case.output and inputs == digests]

    def run_probe(self, case: Case, model: ProbeModel, probe_case: Case, kind: str, seed: int) -> Array:
        """Returns the captured board's output of this probe. Raises NoOtherModel if the probe was not run, BadFileError
        if its row contradicts itself."""
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
        """Raises LinkError: a capture has no runs of the whole network."""
        raise LinkError("a capture keeps no experiments on the whole network")


def _has_form(row: Any, keys: Mapping[str, type]) -> bool:
    """Returns whether the row has exactly these keys, with values of these types."""
    return isinstance(row, dict) and row.keys() == keys.keys() and all(type(row[k]) is keys[k] for k in keys)
