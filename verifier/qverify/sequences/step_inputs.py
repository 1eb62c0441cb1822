"""The external inputs of each step: those that are neither states nor determined by the number of the step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qverify.errors import UsageError
from qverify.inputs import sound
from qverify.inputs.arrays import read_array_file
from qverify.inputs.random_inputs import random_inputs
from qverify.inputs.sources import (
    InputRequest,
    InputRequirement,
    assign_files,
    check_array,
    input_requirements,
    prepared_inputs,
)
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.sequences.loop import Loop
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

FULL_SCALE = 32768  # of 16-bit samples, as float32


def named_inputs(request: InputRequest, frames: list[InputRequest] | None) -> frozenset[str]:
    """Returns the names that -i gives to its files, as far as it names them: NAME:FILE, or NAME.npy in the folder of a
    step."""
    files = frames[0].files if frames else request.files
    if isinstance(files, Mapping):
        return frozenset(files)
    parts = [part.rpartition(":")[0] for part in files.split(",")] if files else []
    return frozenset(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class StepFile:
    """The values of one input in each step. count: number of steps that the file has; None if it has the same values in
    every step. read: returns the prepared input of a step."""

    path: str
    count: int | None
    read: Callable[[int], PreparedInput]


class StepInputs:
    """The external inputs of every step. frames: the files of each step, if -i is a folder or a list; else None.

    notes: facts for the report. The constructor raises UsageError for files that do not fit, or too few of them."""

    def __init__(
        self, graph: Graph, loop: Loop, request: InputRequest, steps: int, frames: list[InputRequest] | None = None
    ):
        self._request, self._frames, self._steps = request, frames, steps
        self._files: dict[str, StepFile] = {}
        self.notes: list[str] = []
        self.use(graph, loop)
        same = {n for n, s in loop.steps.items() if s.kind == "same"}
        if request.files is not None and not loop.external:
            raise UsageError(
                f"-i: the network has no external input (all are states or counted): {', '.join(loop.inputs)}"
            )
        if frames is not None:
            self._check_count(len(frames), "-i", "")
        elif request.files is not None:
            self._files = self._open_files(same)
            for name, file in self._files.items():
                if file.count is not None:
                    self._check_count(file.count, file.path, f" of input {name!r}")

    def use(self, graph: Graph, loop: Loop) -> None:
        """Takes the network that runs the next steps."""
        self._loop = loop
        self._view = replace(graph, inputs=self._loop.external, meta=dict(graph.meta))

    def _check_count(self, have: int, where: str, of: str) -> None:
        if have < self._steps:
            raise UsageError(
                f"{where}: {count(have, 'step')}{of}, --steps wanted {self._steps}; give --steps {have}, or more inputs"
            )
        if have > self._steps:
            self.notes.append(f"{where} has {have} steps; the first {self._steps} are run")

    def at(self, step: int) -> dict[str, PreparedInput]:
        """Returns the external inputs of a step, by name. Raises UsageError for a file that does not fit."""
        if self._files:
            return {name: file.read(step) for name, file in self._files.items()}
        if self._frames is not None:
            prepared = prepared_inputs(self._view, self._frames[step])
        elif self._request.files is None:
            input_requirements(self._view, self._request.tables)
            prepared = random_inputs(self._view, self._request.seed + step)
            first = {n: s for n, s in self._loop.steps.items() if s.kind == "same"} if step else {}
            again = random_inputs(self._view, self._request.seed) if first else prepared
            kept = {i.spec.name: i for i in again.inputs if i.spec.name in first}
            return {i.spec.name: kept.get(i.spec.name, i) for i in prepared.inputs}
        else:
            prepared = prepared_inputs(self._view, self._request)
        return {i.spec.name: i for i in prepared.inputs}

    def _open_files(self, same: set[str]) -> dict[str, StepFile]:
        assert self._request.files is not None
        specs = [self._view.spec(n) for n in self._view.inputs]
        requirements = input_requirements(self._view, self._request.tables)
        paths = assign_files(specs, requirements, self._request.files)
        return {s.name: _open(s, requirements[s.name], paths.get(s.name, ""), s.name in same) for s in specs}


def _open(spec: TensorSpec, requirement: InputRequirement, path: str, same: bool) -> StepFile:
    """Returns the file of one input. same: it is the same in every step."""
    ending = os.path.splitext(path)[1].lower()
    if os.path.isdir(path) and not same:
        names = sorted(n for n in os.listdir(path) if not n.startswith("."))
        files = [file for n in names if os.path.isfile(file := os.path.join(path, n))]
        return StepFile(path, len(files), lambda step: requirement.prepared(files[step]))
    if ending in (".npy", ".npz") and requirement.description is None and not same:
        array = read_array_file(path, requirement.called)
        if array.shape != spec.shape:
            return StepFile(path, *_split(spec, array, path))
    if ending == ".wav" and requirement.description is None:
        return StepFile(path, *_cut_sound(spec, path))
    once = requirement.prepared(path)
    return StepFile(path, None, lambda step: once)


def _split(spec: TensorSpec, array: Array, path: str) -> tuple[int, Callable[[int], PreparedInput]]:
    """Returns the number of steps of an array with one more, leading axis, and what prepares one. Raises UsageError for
    another shape."""
    inner = [n for n in array.shape[1:] if n != 1]
    if not array.ndim or inner != [n for n in spec.shape if n != 1]:
        wanted = f"{spec.dtype}{list(spec.shape)}, or [steps, {', '.join(map(str, spec.shape))}]"
        raise UsageError(f"{path}: {array.dtype}{list(array.shape)} for input {spec.name!r}, wanted {wanted}")

    def read(step: int) -> PreparedInput:
        values = check_array(spec, array[step].reshape(spec.shape), path)
        return PreparedInput(spec, spec.aligned_bytes(values), f"{path}[{step}]")

    return array.shape[0], read


def _cut_sound(spec: TensorSpec, path: str) -> tuple[int, Callable[[int], PreparedInput]]:
    """Returns the number of steps of a .wav whose samples are cut into steps, and what prepares one."""
    samples = sound.read(path)
    if samples.shape[2] != 1 or spec.dtype not in ("int16", "float32") or not spec.elements:
        raise UsageError(
            f"{path}: {samples.shape[2]} channels for input {spec.name!r} of {spec.dtype}{list(spec.shape)}; wanted one "
            "channel, and an int16 or float32 input; else give --description"
        )
    flat = samples.reshape(-1)

    def read(step: int) -> PreparedInput:
        part = flat[step * spec.elements : (step + 1) * spec.elements].astype(spec.dtype)
        values = part / np.float32(FULL_SCALE) if spec.dtype == "float32" else part
        return PreparedInput(spec, spec.aligned_bytes(np.asarray(values).reshape(spec.shape)), f"{path}[{step}]")

    return flat.size // spec.elements, read


def join(
    loop: Loop, step: int, external: Mapping[str, PreparedInput], states: Mapping[str, Array], feed: str
) -> PreparedInputs:
    """Returns the inputs of a step in the network's order: those given, the counted ones, and the states."""
    made = []
    for name, spec in ((n, s) for n, s in loop.inputs.items() if s.elements):
        if name in states:
            made.append(PreparedInput(spec, spec.aligned_bytes(states[name]), "state"))
        elif name in external:
            made.append(external[name])
        else:
            made.append(PreparedInput(spec, spec.aligned_bytes(loop.steps[name].values(spec, step)), "step"))
    keep = tuple(state.output for state in loop.states.values() if not state.via)
    return PreparedInputs(tuple(made), step, feed, keep)
