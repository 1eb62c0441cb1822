"""Converts a task into a request of the main job. Every path in it is inside the folder of the task's files."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest
from qverify.session.chosen_sides import LITERT, ChosenSides, choose_sides
from qverify.session.many_frames import FrameSource
from qverify.session.request import Request
from qverify.session.requests.parse_command import parse_command

from qverify_farm.errors import ArtifactError
from qverify_farm.work.file_cache import digest_of
from qverify_farm.work.host_results import result_key
from qverify_farm.work.job_options import FILES, check_engines_are_listed, check_names, paths_of
from qverify_farm.work.job_task import JobTask, StoredFile


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The request of a task.

    Attributes:
        request: The request of the main job, for the task's board.
        frames: The frames, or None if the request's inputs are the only frame.
        sides: What runs as each side.
        folder: The folder of the task's files.
        model_files: Those of the files that the opened models depend on.
    """

    request: Request
    frames: list[FrameSource] | None
    sides: ChosenSides
    folder: Path
    model_files: tuple[StoredFile, ...] = ()

    @property
    def models_key(self) -> str:
        """A digest of everything that the opened models depend on."""
        request, stated = self.request, self.sides.arithmetic
        inside = partial(os.path.relpath, start=self.folder)
        key_fields = [
            [*map(inside, request.models)],
            sorted((file.path, file.sha256) for file in self.model_files),
            sorted((name, list(shape)) for name, shape in request.shapes.items()),
            request.allow_other_model,
            request.host,
            self.sides.runner is not None,
            self.sides.board is not None and self.sides.board.engine == LITERT,  # takes a .tflite without a conversion
            None if stated is None else [stated.name, sorted(stated.forms.items())],
            [*map(inside, request.quantization)],
        ]
        return hashlib.sha256(json.dumps(key_fields).encode()).hexdigest()

    def result_key(self, inputs_sha256: str) -> str:
        """Returns the key of the results of the reference and the simulator. inputs_sha256: the digest of the prepared
        inputs."""
        return result_key(self.models_key, inputs_sha256, self.sides.reference, self.sides.simulator)

    def check_model_files(self) -> None:
        """Raises ArtifactError if a file that models were just opened from has other bytes than the job says."""
        for file in self.model_files:
            if digest_of(self.folder / file.path) != file.sha256:
                raise ArtifactError(
                    f"{self.folder / file.path}: its bytes changed in this host's cache while they were read"
                )

    def on(self, board: str) -> JobRequest:
        """Returns the same request for another board."""
        request = replace(self.request, board=board)
        return replace(self, request=request, sides=choose_sides(request))

    def frame_inputs(self) -> Iterator[InputRequest]:
        """Yields the inputs of each frame that can be prepared."""
        if self.frames is None:
            yield self.request.inputs
        for frame in self.frames or ():
            if not frame.wrong:
                yield replace(self.request.inputs, files=frame.files, prepared=frame.stated)


class JobRequests:
    """A cache of the last requests, since a suite has the same request for many boards."""

    def __init__(self, max_requests: int = 64):
        self._max_requests, self._requests = max_requests, OrderedDict[str, JobRequest]()
        self._lock = threading.Lock()

    def of(self, task: JobTask, folder: Path) -> JobRequest:
        """Returns make_job_request(task, folder), from the cache if possible."""
        key_fields = [task.models, task.inputs, task.options, task.own_engines, str(folder)]
        key = json.dumps(key_fields, sort_keys=True)
        with self._lock:
            request = self._requests.get(key)
        if request is None:
            request = make_job_request(task, folder)
            with self._lock:
                self._requests[key] = request
                while len(self._requests) > self._max_requests:
                    self._requests.popitem(last=False)
        return request if request.request.board == task.board else request.on(task.board)


def make_job_request(task: JobTask, folder: Path) -> JobRequest:
    """Returns the request of a task. folder: contains the task's files. Raises UsageError for options that a job must not
    have, for paths that are not files of the job, and for wrong values."""
    paths = {file.path for file in task.files}
    check_names(task.options, paths, bool(task.inputs), task.own_engines)
    if not task.own_engines:
        check_engines_are_listed(task.options)
    if missing := [path for path in task.models if path not in paths]:
        raise UsageError(f"model {missing[0]}: it is none of the job's files")
    options: dict[str, Any] = dict(task.options)
    for keyword in FILES & options.keys():
        inside = [str(folder / path) for path in paths_of(options[keyword])]
        options[keyword] = inside[0] if isinstance(options[keyword], str) else inside
    other_paths = {str(task.options[keyword]) for keyword in FILES & options.keys() - {"quantization"}}
    other_paths |= {path for path in paths if path.startswith(tuple(f"{other}/" for other in other_paths))}
    inputs = None
    if task.inputs:
        inputs = ",".join(_input_path(part, folder, paths, other_paths) for part in task.inputs.split(","))
    models = [str(folder / path) for path in task.models]
    job = parse_command("verify", [], {"models": models, "inputs": inputs, **options}).job
    request: Request = replace(job.request, board=task.board)
    _check_inside(request.inputs.files, folder)
    for frame in job.frames or ():
        _check_inside(frame.files, folder)
    model_files = tuple(file for file in task.files if file.path not in other_paths)
    return JobRequest(request, job.frames, choose_sides(request), folder, model_files)


def _input_path(part: str, folder: Path, paths: set[str], other_paths: set[str]) -> str:
    """Returns one part of -i (FILE, FOLDER, NAME:FILE or NAME:FOLDER) with an absolute path. paths: the paths of the job's
    files; those that the part names are added to other_paths."""
    for at in (-1, *(i for i, c in enumerate(part) if c == ":")):
        path = part[at + 1 :].rstrip("/")
        matches = {file for file in paths if file == path or file.startswith(f"{path}/")}
        if path and matches:
            other_paths |= matches
            return f"{part[: at + 1]}{folder / path}"
    raise UsageError(f"inputs {part[:200]!r}: none of the job's files, and no folder of them")


def _check_inside(files: str | Mapping[str, str] | None, folder: Path) -> None:
    """Raises UsageError if a path is outside the folder. A list of frames, for example, may name such a path."""
    inside = os.path.join(os.path.realpath(folder), "")
    parts = files.split(",") if isinstance(files, str) else list((files or {}).values())
    for part in parts:
        for at in (-1, *(i for i, c in enumerate(part) if c == ":")):
            path = part[at + 1 :]
            if os.path.isabs(path) and not os.path.realpath(path).startswith(inside):
                raise UsageError(f"inputs: {os.path.basename(path)[:100]!r} is outside of the job's files")
