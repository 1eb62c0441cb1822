"""Finds the first step of a sequence that is not PASSED, for triage of this step."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from qverify.session.host_sides import Watch
from qverify.session.job import Job
from qverify.session.many_frames import frame_sources
from qverify.session.request import Request
from qverify.session.sequence.verify_sequence import SequenceRun
from qverify.session.triage.triage_request import TriageRequest
from qverify.tensors.prepared import PreparedInputs


def at_wrong_step(request: TriageRequest, watch: Watch | None) -> tuple[TriageRequest, str]:
    """Runs the steps of request.sequence up to the first that is not PASSED. Returns the request for triage of this step, on the
    inputs and states that it had, and a line that says which step it is; of the last step if all are PASSED. The files of
    these inputs are removed when the process ends."""
    assert request.sequence is not None
    options = replace(request.options, dump_all=True)
    main = Request(
        request.models,
        request.board,
        request.run_sim,
        inputs=request.inputs,
        options=options,
        deadline_s=request.deadline_s,
        shapes=request.shapes,
        allow_other_model=request.allow_other_model,
        arithmetic=request.arithmetic,
        reach=request.reach,
        runner=request.runner,
        sequence=request.sequence,
    )
    job = Job(main)
    run = None
    try:
        files = request.inputs.files
        run = SequenceRun(main, frame_sources(files if isinstance(files, str) else None), job)
        line = run.run_to_first_wrong(watch)
        shapes, models = run.jobs.job.request.shapes, run.jobs.job.request.models
        inputs = run.last_inputs
    finally:
        (job if run is None else run.jobs).close()
    assert inputs is not None
    of_step = replace(request.inputs, files=_write(inputs), source=line, tables={}, loop={})
    return replace(request, sequence=None, inputs=of_step, shapes=shapes, models=[*models]), line


def _write(inputs: PreparedInputs) -> dict[str, str]:
    """Writes inputs to files and returns their paths by input name."""
    folder = tempfile.mkdtemp(prefix="qverify-step-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    paths = {}
    for number, (name, values) in enumerate(inputs.arrays().items()):
        paths[name] = str(Path(folder) / f"{number}.npy")
        np.save(paths[name], np.ascontiguousarray(values), allow_pickle=False)
    return paths
