"""What a task asks for, in the terms of the main job, with every path inside the folder of the task's files."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qverify.cli.python_options import asked_of
from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest
from qverify.session.many_frames import FrameSource
from qverify.session.request import Request
from qverify.session.runner import runner_for

from qverify_farm.work.job_options import FILES, check_names
from qverify_farm.work.job_task import JobTask


@dataclass(frozen=True, slots=True)
class JobRequest:
    """request: of the task's board. frames: None for one frame, which the request's inputs are. models_key: digest of
    everything that decides what opening the models gives."""

    request: Request
    frames: list[FrameSource] | None
    models_key: str

    def on(self, board: str) -> JobRequest:
        """Returns the same on another board that is run in the same way."""
        return replace(self, request=replace(self.request, board=board))

    def frame_inputs(self) -> Iterator[InputRequest]:
        """Yields the inputs of each frame that can be prepared."""
        if self.frames is None:
            yield self.request.inputs
        for frame in self.frames or ():
            if not frame.wrong:
                yield replace(self.request.inputs, files=frame.files, prepared=frame.stated)


class JobRequests:
    """Remembers what the last tasks asked for: a suite asks the same of many boards."""

    def __init__(self, most: int = 64):
        self._most, self._known = most, OrderedDict[str, JobRequest]()
        self._lock = threading.Lock()

    def of(self, task: JobTask, folder: Path) -> JobRequest:
        """Returns make_job_request() of the task."""
        asks = [task.models, task.inputs, task.options, str(folder), _has_runner(task.board)]
        key = json.dumps(asks, sort_keys=True)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = make_job_request(task, folder)
            with self._lock:
                self._known[key] = known
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
        return known.on(task.board)


def _has_runner(board: str) -> bool:
    return runner_for(board, ()) is not None


def make_job_request(task: JobTask, folder: Path) -> JobRequest:
    """Returns what the task asks for. folder: of its files. UsageError for what is not the job's to ask, and for wrong
    values."""
    known = {file.path for file in task.files}
    check_names(task.options, known, bool(task.inputs))
    if lacking := [path for path in task.models if path not in known]:
        raise UsageError(f"model {lacking[0]}: it is none of the job's files")
    options: dict[str, Any] = dict(task.options)
    for keyword in FILES & options.keys():
        options[keyword] = str(folder / options[keyword])
    used: set[str] = {str(task.options[keyword]) for keyword in FILES & options.keys()}
    inputs = (
        ",".join(_input_path(part, folder, known, used) for part in task.inputs.split(",")) if task.inputs else None
    )
    models = [str(folder / path) for path in task.models]
    job = asked_of("verify", [], {"models": models, "inputs": inputs, **options}).job
    request: Request = replace(job.request, board=task.board)
    _check_inside(request.inputs.files, folder)
    for frame in job.frames or ():
        _check_inside(frame.files, folder)
    return JobRequest(request, job.frames, _models_key(task, request, used))


def _input_path(part: str, folder: Path, known: set[str], used: set[str]) -> str:
    """Returns one of -i, FILE, FOLDER or NAME:either, with its whole path. used: gets the job's files that it covers."""
    for at in (-1, *(i for i, c in enumerate(part) if c == ":")):
        path = part[at + 1 :].rstrip("/")
        covered = {file for file in known if file == path or file.startswith(f"{path}/")}
        if path and covered:
            used |= covered
            return f"{part[: at + 1]}{folder / path}"
    raise UsageError(f"inputs {part[:200]!r}: none of the job's files, and no folder of them")


def _check_inside(files: str | Mapping[str, str] | None, folder: Path) -> None:
    """Raises UsageError for a path outside the folder, such as one in a list of frames."""
    inside = os.path.join(os.path.realpath(folder), "")
    parts = files.split(",") if isinstance(files, str) else list((files or {}).values())
    for part in parts:
        for at in (-1, *(i for i, c in enumerate(part) if c == ":")):
            path = part[at + 1 :]
            if os.path.isabs(path) and not os.path.realpath(path).startswith(inside):
                raise UsageError(f"inputs: {os.path.basename(path)[:100]!r} is outside of the job's files")


def _models_key(task: JobTask, request: Request, used: set[str]) -> str:
    """used: files that are no part of a model."""
    model_files = sorted((file.path, file.sha256) for file in task.files if file.path not in used)
    shapes = sorted((name, list(shape)) for name, shape in request.shapes.items())
    runner = _has_runner(task.board)
    decides = [list(task.models), model_files, shapes, request.allow_other_model, request.host, runner]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()
