"""Attempts of jobs on this machine's runtime."""

from __future__ import annotations

import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.capture.reader import open_capture
from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkTimeout
from qverify_agents.host_lock import HostLock
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.failures import failure_of, find_unlike, is_same_place
from qverify_farm.work import host_processes
from qverify_farm.work import worker as worker_module
from qverify_farm.work.check_board import check_board
from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_result import MAX_BYTES, shortened
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker

import tests.plain.sequence_models as sequence_models
from tests.farm.example_jobs import ALL_NODES, FAULTY, IMAGES, NODE, ExampleJobs, program

CRASHING = "tests.farm.crashing_child"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("farm")


@pytest.fixture(scope="module")
def jobs(folder: Path) -> ExampleJobs:
    return ExampleJobs.make(folder)


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[JobWorker]:
    made = JobWorker(folder / "cache")
    yield made
    made.close()


def wait_until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process_id: int) -> bool:
    """Whether this process exists and is no zombie."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def report_of(jobs: ExampleJobs, result: JobResult) -> dict[str, object]:
    return dict(json.loads(jobs.store.read(result.report)))


def test_passed(jobs: ExampleJobs, worker: JobWorker, folder: Path) -> None:
    result = run_job(jobs.task(), worker)
    assert (result.ending, result.verdict, result.why, result.nodes, result.of_board) == (
        "finished",
        "PASSED",
        "",
        (),
        False,
    )
    assert 0 < result.board_seconds < result.seconds and result.facts["version"] and result.worker == worker.name
    report = report_of(jobs, result)
    assert report["verdict"] == "PASSED" and report["inputs"][0]["source"] == IMAGES[0]  # type: ignore[index]
    assert str(folder).encode() not in jobs.store.read(result.report)


def test_a_job_checks_the_order_of_frames(jobs: ExampleJobs, worker: JobWorker) -> None:
    """Its report has the result; a board that keeps a state is FAILED."""
    for board, verdict in (("local", "PASSED"), (f"faulty:local?fault=stale_frame@{NODE}", "FAILED")):
        result = run_job(jobs.task(board, options={"check": "order"}), worker)
        checks: Any = report_of(jobs, result)["checks"]
        assert (result.ending, result.verdict, checks[0]["verdict"]) == ("finished", verdict, verdict)


def test_failed_with_capture(jobs: ExampleJobs, worker: JobWorker, tmp_path: Path) -> None:
    result = run_job(jobs.task(FAULTY, keep_capture=True), worker)
    assert (result.verdict, result.blame_side, result.blame_node, result.nodes[0]) == ("FAILED", "board", NODE, NODE)
    assert "does not match" in result.why and not result.of_board
    with tarfile.open(fileobj=io.BytesIO(jobs.store.read(result.capture))) as archive:
        archive.extractall(tmp_path, filter="data")
    capture = open_capture(str(tmp_path))
    assert not capture.incomplete and set(capture.recordings(0)) == {"reference", "simulator", "board"}
    assert capture.report()["verdict"] == "FAILED"


def test_the_verdict_is_that_of_the_main_job(jobs: ExampleJobs, worker: JobWorker, folder: Path) -> None:
    """Both with host results of another process and with those of this one."""
    import qverify

    options = {"dump_all_nodes_results": True, "spot_seed": 7}
    task = jobs.task(FAULTY, options=options)
    got = report_of(jobs, run_job(task, worker))
    example = folder / "example"
    own = qverify.verify(
        str(example / task.models[0]), board=FAULTY, inputs=str(example / IMAGES[0]), **options
    ).to_json()
    differing = {"command", "date", "timings", "link", "boards", "inputs", "pairs", "sides", "notes"}
    for key in own.keys() - differing:
        assert got[key] == own[key], key
    for mine, theirs in zip(got["pairs"], own["pairs"], strict=True):  # type: ignore[call-overload]
        assert {**mine, "board": None} == {**theirs, "board": None}


def test_frames(jobs: ExampleJobs, worker: JobWorker) -> None:
    result = run_job(jobs.task(FAULTY, inputs="digits", keep_capture=True), worker)
    frames = report_of(jobs, result)["frames"]
    assert [row["source"] for row in frames] == [path.rpartition("/")[2] for path in IMAGES]  # type: ignore[attr-defined]
    assert result.verdict == "FAILED" and result.blame_node == NODE and result.capture


def test_host_results_are_computed_once(jobs: ExampleJobs, worker: JobWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is so also for another worker of this host, and for several boards at once."""
    folder, counted = worker.folder / "other", list[int]()
    first, second = JobWorker(folder), JobWorker(folder)
    compute = host_processes.HostProcesses.compute
    monkeypatch.setattr(
        host_processes.HostProcesses,
        "compute",
        lambda *a: counted.append(compute(*a)),  # type: ignore[arg-type, func-returns-value]
    )
    threads = [threading.Thread(target=run_job, args=(jobs.task(f"local?lock=/{at}"), first)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == [1]
    assert run_job(jobs.task(), second).verdict == "PASSED"
    assert counted == [1, 0]
    for one in (first, second):
        one.close()


def test_host_results_that_change_on_the_disk_are_computed_again(jobs: ExampleJobs, folder: Path) -> None:
    """The values of the host's sides are replaced by those of the faulty board while the worker lives."""
    worker, task = JobWorker(folder / "replaced"), jobs.task(FAULTY, options={**ALL_NODES, "pull": "all"})
    before = run_job(task, worker)
    assert before.verdict == "FAILED"
    (path,) = worker.results.folder.glob("*/*/values.bin")
    right = path.read_bytes()
    for wrong in (bytes(len(right)), right[:100], bytes(byte ^ 1 for byte in right)):
        (path,) = worker.results.folder.glob("*/*/values.bin")
        path.write_bytes(wrong)
        after = run_job(task, worker)
        assert (after.verdict, after.why, after.nodes) == (before.verdict, before.why, before.nodes)
        assert [found.read_bytes() for found in worker.results.folder.glob("*/*/values.bin")] == [right]
    worker.close()


def test_models_that_change_while_they_are_opened_are_not_kept(
    jobs: ExampleJobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, opened = JobWorker(folder / "opening"), worker_module.open_with_board_model

    def open_and_change(request: Any, runner: Any) -> Any:
        models, path = opened(request, runner), Path(request.models[0])
        path.chmod(0o644)
        path.write_bytes(path.read_bytes() + b" ")
        return models

    with monkeypatch.context() as patched:
        patched.setattr(worker_module, "open_with_board_model", open_and_change)
        result = run_job(jobs.task(), worker)
    assert (result.verdict, result.why) == (
        "INCONCLUSIVE",
        f"{jobs.task().models[0]}: its bytes changed in this host's cache while they were read",
    )
    assert run_job(jobs.task(), worker).verdict == "PASSED"
    worker.close()


def test_inputs_that_cannot_be_prepared(jobs: ExampleJobs, worker: JobWorker) -> None:
    """This is a user's mistake: no board is blamed, and nothing runs."""
    wrong = io.BytesIO()
    np.save(wrong, np.zeros((3, 3, 3), np.float32))
    task = jobs.with_file("wrong.npy", wrong.getvalue()).task(inputs="wrong.npy")
    result = run_job(task, worker)
    assert (result.ending, result.verdict, result.of_board, result.report) == ("refused", "INCONCLUSIVE", False, "")
    assert result.why.startswith("wrong.npy: ")


def test_options_and_models_that_are_not_the_jobs(jobs: ExampleJobs, worker: JobWorker) -> None:
    refused = run_job(jobs.task(options={"runner": "sh -c id", "capture": "/tmp/x"}), worker)
    assert (
        (refused.ending, refused.verdict) == ("refused", "INCONCLUSIVE")
        and "runner" in refused.why
        and "capture" in refused.why
    )
    other = run_job(jobs.task(models=("/etc/passwd",)), worker)
    assert "none of the job's files" in other.why and not other.of_board and other.ending == "refused"


def test_a_junk_model_is_refused_and_an_unusable_store_is_not(jobs: ExampleJobs, worker: JobWorker) -> None:
    """The first is the submitter's mistake; another attempt may mend the second."""
    result = run_job(jobs.with_file("junk.onnx", b"junk").task(models=("junk.onnx",)), worker)
    assert (result.ending, result.verdict) == ("refused", "INCONCLUSIVE") and result.why.startswith("junk.onnx: ")
    elsewhere = run_job(replace(jobs.task(), artifacts="/dev/null"), worker)
    assert (elsewhere.ending, elsewhere.verdict) == ("finished", "INCONCLUSIVE"), elsewhere


@pytest.mark.parametrize(
    ("board", "why"),
    [
        ("local?runtime=/nowhere", "no program there"),
        ("nosuch:board", "nosuch"),
        ("faulty:local?fault=die@" + NODE, "was killed"),
    ],
)
def test_boards_that_fail(jobs: ExampleJobs, worker: JobWorker, board: str, why: str) -> None:
    result = run_job(jobs.task(board), worker)
    assert (result.ending, result.verdict, result.of_board) == ("finished", "INCONCLUSIVE", True), result
    assert why in result.why


def test_a_board_in_use_is_busy(jobs: ExampleJobs, worker: JobWorker) -> None:
    """The lock of the board's name also protects a board without a lock of its own."""
    lock = HostLock(Address("farm", f"{worker.folder}\0local"), "somebody else", 0.0)
    result = run_job(jobs.task(), worker)
    assert (result.ending, result.of_board, result.report) == ("busy", False, "") and "somebody else" in result.why
    lock.close()
    assert run_job(jobs.task(), worker).verdict == "PASSED"


def test_timeout_and_cancel(jobs: ExampleJobs, worker: JobWorker, tmp_path: Path) -> None:
    """A board that hangs is given up at the job's timeout, or when the job is cancelled."""
    board = program(tmp_path / "hangs", "exec sleep 60")
    assert run_job(jobs.task(), worker).verdict == "PASSED"  # so that the host's sides are no part of the time
    late = run_job(jobs.task(board, timeout_s=2.0), worker)
    assert (late.ending, late.verdict, late.of_board) == ("finished", "INCONCLUSIVE", True)
    assert late.why == "the job took longer than its 2 s"
    limit = JobLimit(60.0)
    timer = threading.Timer(0.3, worker.cancel, ("job",))
    timer.start()
    start = time.monotonic()
    cancelled = run_job(jobs.task(board), worker, limit)
    assert (cancelled.ending, cancelled.verdict, cancelled.of_board) == ("cancelled", "INCONCLUSIVE", False)
    assert time.monotonic() - start < 30
    worker.cancel("unknown")


def test_a_crash_of_the_host_process_does_not_end_the_worker(
    jobs: ExampleJobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = JobWorker(folder / "crashing")
    with monkeypatch.context() as patched:
        patched.setattr(host_processes, "MODULE", CRASHING)
        patched.setenv("ALWAYS_CRASH", "1")
        result = run_job(jobs.task(), worker)
    assert (result.ending, result.verdict, result.of_board) == ("finished", "INCONCLUSIVE", False)
    assert result.why == "the process that runs the reference and the simulator was killed by SIGSEGV"
    assert run_job(jobs.task(), worker).verdict == "PASSED"
    worker.close()


def test_isolated(jobs: ExampleJobs, worker: JobWorker, tmp_path: Path) -> None:
    """A crash of the job's process loses only the job."""
    kills = program(tmp_path / "kills", "kill -9 $PPID; exec sleep 60")
    result = run_job(jobs.task(kills, isolated=True), worker)
    assert (result.ending, result.verdict, result.why) == (
        "lost",
        "INCONCLUSIVE",
        "the job's process was killed by SIGKILL",
    )
    assert run_job(jobs.task(isolated=True), worker).verdict == "PASSED"


@pytest.mark.parametrize("ends", ["cancel", "timeout"])
def test_the_programs_of_an_isolated_job_end_with_it(
    jobs: ExampleJobs, worker: JobWorker, tmp_path: Path, ends: str
) -> None:
    """The board's program ignores the end of its input and has started another one."""
    pids = tmp_path / "pids"
    board = program(
        tmp_path / "hangs", f"sleep 60 & echo $! >>{pids}; echo $$ >>{pids}; trap '' TERM HUP INT; wait; wait"
    )

    def cancel() -> None:
        wait_until(pids.exists)
        time.sleep(0.3)
        worker.cancel("job")

    canceller = threading.Thread(target=cancel)
    if ends == "cancel":
        canceller.start()
    for timeout_s in (60.0,) if ends == "cancel" else (6.0, 30.0):
        result = run_job(jobs.task(board, isolated=True, timeout_s=timeout_s), worker)
        assert result.verdict == "INCONCLUSIVE" and (result.ending == "cancelled") == (ends == "cancel")
        if pids.exists():  # else a busy machine did not start the program in time
            break
    if ends == "cancel":
        canceller.join()
    processes = [int(word) for word in pids.read_text().split()]
    assert len(processes) >= 2
    wait_until(lambda: not any(is_running(pid) for pid in processes))


def test_health_check(worker: JobWorker, tmp_path: Path) -> None:
    assert check_board(worker, "good", "local") == ""
    assert "no program there" in check_board(worker, "bad", "local?runtime=/nowhere")
    assert "FAILED" in check_board(worker, "wrong", FAULTY)
    lock = HostLock(Address("farm", f"{worker.folder}\0good"), "somebody else", 0.0)
    assert "in use by somebody else" in check_board(worker, "good", "local")
    lock.close()


def test_a_child_answers_until_it_dies() -> None:
    child = Child(CRASHING)
    first, second = (child.ask({"n": n}, Deadline(30)) for n in range(2))
    assert (first["n"], second["n"]) == (0, 1) and first["process"] == second["process"]
    with pytest.raises(ChildDied, match=r"^was killed by SIGSEGV"):
        child.ask({"signal": "SIGSEGV"}, Deadline(30))
    assert child.ask({"n": 3}, Deadline(30))["process"] != first["process"]
    with pytest.raises(LinkTimeout):
        child.ask({"sleep": 60}, Deadline(0.2))
    child.close()


def test_a_result_says_what_weakens_its_verdict_and_how_large_its_failure_is(
    jobs: ExampleJobs, worker: JobWorker
) -> None:
    weak = run_job(jobs.task(options={"gate": ["sqnr:-100"]}), worker)
    assert weak.verdict == "PASSED" and "judged by sqnr_db >= -100 instead of 5 decimals" in weak.caveats
    relaxed = run_job(jobs.task(FAULTY, options={"gate": ["lsb:1"], "relax_board": True}), worker)
    assert relaxed.verdict == "PASSED" and "relaxed by --relax-board to max_lsb <= 1" in relaxed.caveats
    finals = run_job(jobs.task("finals:local"), worker)
    assert finals.verdict == "PASSED" and "final outputs only: the board offers no per-node dump" in finals.caveats
    assert run_job(jobs.task(), worker).caveats == ""
    few, every = (
        run_job(jobs.task(f"faulty:local?fault={fault}@{NODE}"), worker) for fault in ("stuck_bit", "plus_one")
    )
    assert few.nodes == every.nodes and few.nodes[0] == NODE == few.blame_node
    known, found = (failure_of(one.blame_side, one.nodes, one.extent) for one in (few, every))
    assert is_same_place(known, found) and find_unlike(known, known) == ""
    assert find_unlike(known, found) == f"{NODE}: 512 elements differ, 4 in the baseline"  # of two pairs
    assert few.extent["causes"] == ["node"] and every.extent["nodes"][few.nodes.index(NODE)][2:] == [0, 512]


def test_results_are_small() -> None:
    name = "ä" * 400
    long = JobResult(
        "j" * 32,
        1,
        "finished",
        why=name,
        blame_node=name,
        nodes=(name,) * 20,
        facts={name: name},
        worker=name,
        caveats=name * 3,
        extent={"causes": ["node"], "tensors": 20, "elements": 20, "nodes": [[1, 0.5, 0, 1]] * 20},
    )
    small = shortened(long)
    assert len(json.dumps(small.to_json())) <= MAX_BYTES and small.why and small.job == long.job
    assert JobResult.from_json(json.loads(json.dumps(small.to_json()))) == small
    assert len(small.extent["nodes"]) == len(small.nodes) and small.caveats
    short = JobResult("j", 1, "finished", "FAILED", "why", nodes=("a", "b"), facts={"arch": "x"})
    assert shortened(short) == short


def test_tasks_survive_json(jobs: ExampleJobs) -> None:
    task = jobs.task(options={"gate": ["cosine:0.9"], "roi": {"image": [0, 0, 4, 4]}})
    assert JobTask.from_json(json.loads(json.dumps(task.to_json()))) == task


def sequence_jobs(folder: Path) -> ExampleJobs:
    """A network with a state and inputs of four steps."""
    sequence_models.recurrent(folder / "rec.onnx")
    steps = io.BytesIO()
    np.save(steps, np.random.default_rng(3).normal(size=(4, 1, 8)).astype(np.float32))
    store = open_artifacts(str(folder / "store"))
    jobs = ExampleJobs(store, ()).with_file("rec.onnx", (folder / "rec.onnx").read_bytes())
    return jobs.with_file("steps.npy", steps.getvalue())


def test_a_job_verifies_the_steps_of_a_sequence_and_names_the_first_wrong_one(
    tmp_path: Path, worker: JobWorker
) -> None:
    jobs = sequence_jobs(tmp_path)
    fields = {"models": ("rec.onnx",), "inputs": "steps.npy", "options": {"steps": 4, "dump_all_nodes_results": True}}
    result = run_job(jobs.task(**fields), worker)
    assert (result.ending, result.verdict) == ("finished", "PASSED"), result.why
    report = report_of(jobs, result)
    assert report["sequence"]["ran"] == 4  # type: ignore[index]
    assert {point["step"] for point in report["sequence"]["curve"]} == {0, 1, 2, 3}  # type: ignore[index]
    wrong = jobs.task("faulty:local?fault=bitflip@zd_q", **fields)
    result = run_job(wrong, worker)
    assert (result.ending, result.verdict) == ("finished", "FAILED")
    assert result.blame_node == "zd_q" and "step 0" in result.why


def test_a_process_of_a_sequence_that_dies_loses_the_job_and_not_the_worker(
    tmp_path: Path, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = sequence_jobs(tmp_path)
    monkeypatch.setattr("qverify_farm.work.run_job.ISOLATED", CRASHING)
    monkeypatch.setenv("ALWAYS_CRASH", "1")
    task = jobs.task(models=("rec.onnx",), inputs="steps.npy", options={"steps": 4})
    assert run_job(task, worker).ending == "lost"
