"""The jobs that run the steps: one for the whole sequence, or one for each phase and each length of an axis that grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.sequences.loop import Loop
from qverify.sequences.sequence_request import SequenceRequest
from qverify.session.job import Job
from qverify.session.request import Request
from qverify.tensors.recording import Array

MAX_LENGTHS = 64  # networks that one sequence compiles


class StepJobs:
    """Opens the models of each step. count: number of networks so far. bytes: of their model.bin."""

    def __init__(self, request: Request, sequence: SequenceRequest, job: Job):
        self._request, self._sequence, self._job = request, sequence, job
        self._first_length: dict[str, int] = {}
        self.count, self.bytes = 1, len(job.models.binary)

    @property
    def job(self) -> Job:
        """The job of the step that was asked for last."""
        return self._job

    @property
    def graph(self) -> Graph:
        """The network of that step."""
        return self._job.models.graph

    def next_phase(self) -> Job:
        """Returns the job of --decode."""
        request = replace(self._request, models=[*self._sequence.decode], shapes=self._sequence.decode_shapes)
        return self._open(request)

    def grown(self, loop: Loop, values: Mapping[str, Array]) -> Job:
        """Returns the job of a step whose states have these values: the same one as before if the shapes fit it. Raises
        UsageError beyond MAX_LENGTHS networks."""
        shapes = {name: tuple(value.shape) for name, value in values.items()}
        if all(shape == loop.inputs[name].shape for name, shape in shapes.items()):
            return self._job
        if self.count >= MAX_LENGTHS:
            raise UsageError(
                f"--steps {self._sequence.steps}: the state {next(iter(shapes))} grows, and each length is a network of its own, at "
                f"most {MAX_LENGTHS}; give --steps {MAX_LENGTHS}, or export the cache with a fixed length, written in place"
            )
        request = self._job.request
        return self._open(replace(request, shapes={**request.shapes, **self._masks(loop, values), **shapes}))

    def _masks(self, loop: Loop, values: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of masks, which grow along their last axis as the states do."""
        growth = 0
        for state in loop.states.values():
            if state.grows is not None and state.input in values:
                before = loop.inputs[state.input].shape[state.grows]
                growth = max(growth, values[state.input].shape[state.grows] - before)
        shapes = {n: loop.inputs[n].shape for n, s in loop.steps.items() if s.kind == "mask"}
        return {name: (*shape[:-1], shape[-1] + growth) for name, shape in shapes.items()}

    def _open(self, request: Request) -> Job:
        self._job.close()
        self._job = Job(replace(request, capture=None))
        self.count += 1
        self.bytes += len(self._job.models.binary)
        return self._job

    def close(self) -> None:
        """Closes the job of the last step."""
        self._job.close()
