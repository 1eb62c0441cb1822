"""Makes the job of `qverify verify`."""

from __future__ import annotations

import os
from dataclasses import replace

from qverify.errors import OptionsError
from qverify.options.given import Given
from qverify.session.many_frames import frame_sources
from qverify.session.request import Request, find_dump
from qverify.session.requests.farm import farm_request
from qverify.session.requests.inputs import read_dump, read_inputs, read_sequence, read_task
from qverify.session.requests.judging import read_judging
from qverify.session.requests.sides import read_link, read_runner, read_sides
from qverify.session.swept_shapes import sweep_shapes
from qverify.session.verify_boards import VerifyJob

SAME = (  # options whose values the request has under their names
    *("quantization", "allow_other_model", "signature", "arithmetic", "pull", "repeat", "paranoid", "spot_seed"),
    *("capture", "reference_spread", "reference_timeout_s", "reference_engine"),
)


def verify_job(given: Given) -> VerifyJob:
    """Returns the job. Raises OptionsError for options that exclude each other."""
    boards, server, has_npz = given["boards"], given["server"], given["npz"] is not None
    if server is None and given["token"] is not None:
        raise OptionsError("--token is that of a server; give --server URL, too")
    inputs = read_inputs(given)
    task = read_task(given)
    deadline_s, reach = read_link(given)
    runner = read_runner(given, reach)
    options = read_judging(given, inputs.outputs, task is not None)
    sequence = read_sequence(given, inputs)
    paths = [p for model in given["models"] for p in model.split(",")]
    if not all(paths) or not all(boards) or given["capture"] == "":
        raise OptionsError("an empty -m, -b or --capture (an unset shell variable?)")
    all_paths = paths
    if task is not None:
        from qverify.session.task.float_model import split_float

        paths, float_model = split_float(paths)
        task = replace(task, float_model=float_model)
    dump = read_dump(given, find_dump(paths) if server is None and not boards else None)
    frames = frame_sources(
        inputs.files if isinstance(inputs.files, str) else None, (task.labels or "") if task is not None else ""
    )
    shapes, *others = sweep_shapes(given["shapes"])
    _check(given, dump.path if dump is not None else None, frames is not None, task is not None, bool(others))
    if dump is not None:
        paths = [path for path in paths if path != dump.path]
    if sequence is not None:
        from qverify.session.sequence.first_shapes import first_shapes

        shapes, sequence = first_shapes(paths, shapes, sequence)
    run_sim, run_reference, simulators = read_sides(given)
    request = Request(
        paths,
        run_sim=run_sim,
        run_reference=run_reference,
        simulators=simulators,
        inputs=inputs,
        options=options,
        deadline_s=deadline_s,
        shapes=shapes,
        host=not given["no_host"],
        reach=reach,
        runner=runner,
        checks=tuple(dict.fromkeys(given["checks"])),
        sweep=(shapes, *others) if others else (),
        reference_python=_pythons(given),
        task=task,
        sequence=sequence,
        **given.only(*SAME),
    )
    job = VerifyJob(request, boards, frames, dump=dump)
    if server is None:
        return job
    if has_npz:
        raise OptionsError("--npz: a farm keeps no tensors; leave it out, or run here without --server")
    return replace(job, on_farm=farm_request(given, all_paths))


def _pythons(given: Given) -> tuple[str, ...]:
    """Returns the commands of --reference-python, or for --reference-spread that of the environment."""
    pythons: tuple[str, ...] = given["reference_python"]
    python = os.environ.get("QVERIFY_REFERENCE_PYTHON") if given["reference_spread"] else None
    return pythons or ((python,) if python else ())


def _check(given: Given, dump: str | None, many_frames: bool, has_task: bool, sweep: bool) -> None:
    """Raises OptionsError for what cannot be together. dump: path of a dump in the board's place. sweep: several shapes."""
    on_farm, has_npz, checks = given["server"] is not None, given["npz"] is not None, given["checks"]
    if given["signature"] and (given["capture"] is not None or on_farm or dump is not None):
        raise OptionsError(
            f"--signature {given['signature']}: for boards of this host, without --capture, --server and a dump"
        )
    if given["steps"] is not None and (wrong := _wrong_with_steps(given, dump is not None)):
        raise OptionsError(f"--steps {given['steps']}: {wrong}")
    if dump is not None:
        if has_task:
            raise OptionsError(
                "--task, --labels and --task-metric measure sides that run, not a dump in the board's place"
            )
        option = "--no-board" if given["no_board"] else "--npz" if has_npz else ""
        if option or many_frames:
            what = f"leave out {option}" if option else "it is of one frame; give one input"
            raise OptionsError(f"-m {dump}: a dump is in the board's place; {what}")
    if has_npz and (len(given["boards"]) > 1 or many_frames):
        raise OptionsError("--npz takes one frame and at most one board; --capture DIR keeps those of several")
    if dump is not None and (sweep or checks):
        what = "--shape with several shapes" if sweep else f"--check {checks[0]}"
        raise OptionsError(f"{what}: a dump is of one run; give -b BOARD")
    if sweep and has_npz:
        raise OptionsError("--npz takes one network; give one shape")


def _wrong_with_steps(given: Given, has_dump: bool) -> str:
    """Returns what a sequence cannot have, in words; "" for none."""
    if len(given["boards"]) > 1:
        return "a sequence is of one board; give one -b"
    if given["server"] is not None:
        return "--server takes independent frames; run it here, without --server"
    if has_dump:
        return "a dump is of one step; give -b BOARD"
    return "--npz takes one frame; --capture DIR keeps those of all steps" if given["npz"] is not None else ""
