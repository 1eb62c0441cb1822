"""An engine that adds lanes for triages to another engine: a triage takes no board, but a turn on this host. To the
dispatcher a lane is a board, so that a triage is queued, cancelled, retried and resumed as any other job."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qverify.errors import QVerifyError
from qverify_agents.deadline import Deadline, limited
from qverify_agents.errors import LinkError

from qverify_farm.engines.engine import Finished, JobEngine, ReachedBoard
from qverify_farm.errors import StoreFullError
from qverify_farm.service.triage_child import outputs
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.file_cache import FileCache
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_result import shortened
from qverify_farm.work.job_task import JobResult, JobTask

LANE = "this-host-triage-"  # no board may be called so
LANE_TAGS = {"qverify": "triage"}
WANTED = "qverify=triage"
MODULE = "qverify_farm.service.triage_child"
MOST_PAGE = 64 << 20
PAGE = "triage.html"


def is_lane(board: str) -> bool:
    return board.startswith(LANE)


class TriageEngine:
    """An JobEngine over another, with lanes for triages. cache: of the files that they read. lanes: triages at a time."""

    def __init__(self, engine: JobEngine, artifacts: Artifacts, cache: Path, lanes: int):
        self._engine, self._artifacts, self._files = engine, artifacts, FileCache(cache)
        self._lanes = {f"{LANE}{n}": ReachedBoard(f"{LANE}{n}", "", LANE_TAGS) for n in range(1, lanes + 1)}
        self._limits: dict[str, JobLimit] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closed = False

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the other engine's boards, and the lanes."""
        return {**self._engine.boards(), **self._lanes}

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a triage in a lane, everything else on the other engine; never waits."""
        if not is_lane(task.board_name):
            self._engine.start(task, finished)
            return
        limit = JobLimit(task.timeout_s)

        def run() -> None:
            result = _result(task, self._artifacts, self._files, limit)
            with self._lock:
                self._limits.pop(task.job, None)
                self._threads.discard(threading.current_thread())
            finished(task, result)

        thread = threading.Thread(target=run, name="farm-triage", daemon=True)
        with self._lock:
            self._limits[task.job] = limit
            self._threads.add(thread)
            closed = self._closed
        if closed:
            limit.cancel()
        thread.start()

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; a lane is always well."""
        if is_lane(name):
            finished(name, "")
        else:
            self._engine.check_board(name, finished)

    def cancel(self, job: str) -> None:
        """Ends a job's attempt, wherever it runs."""
        with self._lock:
            limit = self._limits.get(job)
        if limit is not None:
            limit.cancel()
        else:
            self._engine.cancel(job)

    def close(self, timeout_s: float = 10.0) -> None:
        """Ends what runs, and closes the other engine."""
        end = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            limits, threads = list(self._limits.values()), list(self._threads)
        for limit in limits:
            limit.cancel()
        self._engine.close(timeout_s)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._files.close()


def _result(task: JobTask, artifacts: Artifacts, files: FileCache, limit: JobLimit) -> JobResult:
    """Runs a triage and returns its result; nothing is raised."""
    start = time.monotonic()
    fields: dict[str, Any]
    try:
        with limited(limit), files.tree(task.files, artifacts) as tree, tempfile.TemporaryDirectory() as out:
            fields = _run(task, tree, Path(out), artifacts)
    except ChildDied as error:
        fields = {"ending": "lost", "why": f"its process {error}"}
    except StoreFullError as error:
        fields = {"ending": "busy", "why": str(error)}
    except (QVerifyError, LinkError, OSError, ValueError) as error:
        fields = {"ending": "finished", "why": str(error)}
    if limit.cancelled and not fields.get("report"):
        fields = {"ending": "cancelled", "why": "cancelled"}
    seconds = round(time.monotonic() - start, 3)
    result = JobResult(task.job, task.attempt, **{"ending": "finished", **fields, "seconds": seconds})
    return shortened(result)


def _run(task: JobTask, tree: Path, out: Path, artifacts: Artifacts) -> dict[str, Any]:
    at = outputs(out)
    child = Child(MODULE)
    try:
        told = child.ask({"words": words_of(task, tree, at)}, Deadline(task.timeout_s))
    finally:
        child.close()
    if not at["json"].is_file():
        said = str(told["said"]).replace(f"{tree}/", "").removeprefix("qverify: ")
        return {"why": " ".join(said.split()) or f"qverify triage ended with status {told['status']}"}
    for name in ("json", "html"):
        _name_as_handed_in(at[name], tree)
    document = json.loads(at["json"].read_bytes())
    report = artifacts.put_file(at["json"]).sha256
    return {**fields_of(document), "report": report, "capture": artifacts.put_file(_zipped(at, out)).sha256}


def _name_as_handed_in(path: Path, tree: Path) -> None:
    """Writes a file anew with the names that the files had when they were handed in: where they lie here is nobody's
    business."""
    if path.is_file():
        path.write_bytes(path.read_bytes().replace(f"{tree}/".encode(), b""))


def words_of(task: JobTask, tree: Path, at: Mapping[str, Path]) -> list[str]:
    """Returns the words of the command for a task whose files are in `tree`."""
    asked, words = task.options, list[str]()

    def path(name: str) -> str:
        return str(tree / name.rstrip("/"))

    if asked.get("capture"):
        words.append(path(asked["capture"]))
    models = [*task.models, *([asked["dump"]] if asked.get("dump") else [])]
    if models:
        words += ["-m", ",".join(path(one) for one in models)]
    if task.inputs:
        words += ["-i", ",".join(_input(part, task, tree) for part in task.inputs.split(","))]
    for option in ("app_input", "app_output", "description"):
        if asked.get(option):
            words += [f"--{option.replace('_', '-')}", path(asked[option])]
    if not asked.get("capture"):
        words += ["--capture", str(at["capture"])]
    return [*words, "--json", str(at["json"]), "--html", str(at["html"]), "--quiet"]


def _input(part: str, task: JobTask, tree: Path) -> str:
    known = {file.path for file in task.files}
    for at in (-1, *(n for n, c in enumerate(part) if c == ":")):
        name = part[at + 1 :].rstrip("/")
        if name and any(path == name or path.startswith(f"{name}/") for path in known):
            return f"{part[: at + 1]}{tree / name}"
    raise ValueError(f"inputs {part[:100]!r}: none of the job's files, and no folder of them")


def fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a JobResult says of a triage's document: verdict, why, blame."""
    verdict = document.get("verdict")
    rungs = [rung for rung in document.get("rungs", []) if rung.get("verdict") == verdict]
    rung = rungs[0] if rungs and verdict != "PASSED" else {}
    blame = rung.get("blame") or {}
    why = document.get("next_step") or rung.get("why") or ""
    gate = f"{rung['a']} ~ {rung['b']}: " if rung else ""
    return {
        "verdict": verdict if verdict in ("PASSED", "FAILED") else "INCONCLUSIVE",
        "why": f"{gate}{why}" if verdict != "PASSED" else "",
        "blame_side": str(blame.get("side", "")),
        "blame_node": str(blame.get("node", "")),
        "nodes": tuple(str(one) for one in [blame["node"], *blame.get("also", [])] if one) if blame else (),
    }


def _zipped(at: Mapping[str, Path], out: Path) -> Path:
    """Returns a bundle of what the triage made: its page, its document, and the capture to triage again."""
    path = out / "bundle.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
        for name in ("html", "json"):
            if at[name].is_file():
                bundle.write(at[name], at[name].name)
        if at["capture"].is_dir():
            for file in sorted(at["capture"].rglob("*")):
                if file.is_file():
                    bundle.write(file, f"capture/{file.relative_to(at['capture']).as_posix()}")
    return path


def page_of(artifacts: Artifacts, bundle: str) -> bytes:
    """Returns the page inside a triage's bundle. bundle: its SHA-256."""
    with artifacts.open(bundle) as file, zipfile.ZipFile(file) as content:
        if content.getinfo(PAGE).file_size > MOST_PAGE:
            raise QVerifyError(f"the page is larger than {MOST_PAGE >> 20} MB; take the bundle")
        return content.read(PAGE)
