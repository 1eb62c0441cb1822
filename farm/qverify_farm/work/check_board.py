"""The health check of a board: connects to it and runs the packaged example on it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from dataclasses import replace
from pathlib import Path

from qverify.errors import QVerifyError
from qverify.session.chosen_sides import choose_board
from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify_agents.connect import connect
from qverify_agents.deadline import apply_time_limit
from qverify_agents.errors import LinkError
from qverify_agents.inventory import ANY_RUNTIME

from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_task import JobTask, StoredFile
from qverify_farm.work.run_job import RunningAttempt, board_lock
from qverify_farm.work.worker import JobWorker

IMAGE, TIMEOUT_S = "digits/digit_3.npy", 180.0


def check_board(worker: JobWorker, name: str, address: str, limit: JobLimit | None = None) -> str:
    """Returns "" if the health check passed, otherwise one line that says why not. The board must run the packaged example
    with the verdict PASSED; a board with a runner, which needs a model of its own, is only connected. name: the board's name
    in the farm."""
    limit = limit or JobLimit(TIMEOUT_S)
    try:
        with worker.running(f"check {name}", limit), apply_time_limit(limit):
            if choose_board(address).page is not None:
                return _connect_once(worker, name, address)
            folder = _ensure_example(worker.folder / "example")
            files = tuple(_stored_file(folder, path) for path in (SOURCE, IMAGE))
            task = JobTask(f"check {name}", 1, address, name, (SOURCE,), files, IMAGE, {"dump_all_nodes_results": True})
            result = RunningAttempt(replace(task, timeout_s=TIMEOUT_S), worker, limit).run_in(folder, None)
    except (LinkError, QVerifyError) as error:
        return " ".join(str(error).split())
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "" if result.verdict == "PASSED" else f"the packaged example: {result.verdict}: {result.why}"


def _connect_once(worker: JobWorker, name: str, address: str) -> str:
    with contextlib.closing(board_lock(worker, name)):
        connect(address, TIMEOUT_S, runs=ANY_RUNTIME).close()
    return ""


def _ensure_example(folder: Path) -> Path:
    """Writes the packaged example into the folder, unless it is there, and returns the folder."""
    if not folder.is_dir():
        partial = folder.with_name(f".example-{secrets.token_hex(8)}")
        write_example(str(partial))
        with contextlib.suppress(OSError):  # another process was first
            os.rename(partial, folder)
    return folder


def _stored_file(folder: Path, path: str) -> StoredFile:
    data = (folder / path).read_bytes()
    return StoredFile(path, hashlib.sha256(data).hexdigest(), len(data))
