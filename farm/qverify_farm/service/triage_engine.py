"""An engine that adds lanes for triages to another engine. A triage runs on this host and needs no board. For the dispatcher a
lane is a board, so that a triage is queued, cancelled, retried and resumed like any other job."""

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
from qverify_agents.deadline import Deadline, apply_time_limit
from qverify_agents.errors import LinkError

from qverify_farm.engines.engine import Finished, JobEngine, ReachedBoard
from qverify_farm.errors import StoreUnavailableError
from qverify_farm.service.outputs_diff_job import COMMAND as OUTPUTS
from qverify_farm.service.outputs_diff_job import is_outputs_case, outputs_fields, outputs_page, outputs_words
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.file_cache import FileCache
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_result import shortened
from qverify_farm.work.job_task import JobResult, JobTask

LANE = "this-host-triage-"  # how the names of lanes begin; no board has such a name
LANE_TAGS = {"qverify": "triage"}
TRIAGE_WANTED = "qverify=triage"
MODULE = "qverify_farm.cli.triage_child"  # which runs the command; it stands above the service
TRIAGE = ("triage",)
MAX_PAGE_BYTES = 64 << 20
PAGE = "triage.html"


def is_lane(board: str) -> bool:
    return board.startswith(LANE)


class TriageEngine:
    """A JobEngine that wraps another and adds lanes for triages. cache: the cache folder for the triages' files. lanes: the
    number of triages that run at a time."""

    def __init__(self, engine: JobEngine, artifacts: ArtifactStore, cache: Path, lanes: int):
        self._engine, self._artifacts, self._files = engine, artifacts, FileCache(cache)
        self._lanes = {f"{LANE}{n}": ReachedBoard(f"{LANE}{n}", "", LANE_TAGS) for n in range(1, lanes + 1)}
        self._limits: dict[str, JobLimit] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closed = False

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards of the wrapped engine, and the lanes."""
        return {**self._engine.boards(), **self._lanes}

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a triage in a lane, or any other task on the wrapped engine; never waits."""
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
        """Begins a health check. For a lane, it always passes."""
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
        """Ends the running triages, and closes the wrapped engine."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            limits, threads = list(self._limits.values()), list(self._threads)
        for limit in limits:
            limit.cancel()
        self._engine.close(timeout_s)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._files.close()


def _result(task: JobTask, artifacts: ArtifactStore, files: FileCache, limit: JobLimit) -> JobResult:
    """Runs a triage and returns its result. Expected errors become part of the result."""
    start = time.monotonic()
    fields: dict[str, Any]
    try:
        with (
            apply_time_limit(limit),
            files.tree(task.files, artifacts) as tree,
            tempfile.TemporaryDirectory() as output_folder,
        ):
            fields = _run(task, tree, Path(output_folder), artifacts)
    except ChildDied as error:
        fields = {"ending": "lost", "why": f"its process {error}"}
    except StoreUnavailableError as error:
        fields = {"ending": "busy", "why": str(error)}
    except (QVerifyError, LinkError, OSError, ValueError) as error:
        fields = {"ending": "finished", "why": str(error)}
    if limit.cancelled and not fields.get("report"):
        fields = {"ending": "cancelled", "why": "cancelled"}
    seconds = round(time.monotonic() - start, 3)
    result = JobResult(task.job, task.attempt, **{"ending": "finished", **fields, "seconds": seconds})
    return shortened(result)


def _run(task: JobTask, tree: Path, output_folder: Path, artifacts: ArtifactStore) -> dict[str, Any]:
    paths = output_paths(output_folder)
    of_outputs = is_outputs_case(task.options)
    command = OUTPUTS if of_outputs else TRIAGE
    words = outputs_words(task.options, tree, paths) if of_outputs else command_words(task, tree, paths)
    child = Child(MODULE)
    try:
        answer = child.ask({"command": list(command), "words": words}, Deadline(task.timeout_s))
    finally:
        child.close()
    if not paths["json"].is_file():
        error_text = str(answer["said"]).replace(f"{tree}/", "").removeprefix("qverify: ")
        return {
            "why": " ".join(error_text.split()) or f"qverify {' '.join(command)} ended with status {answer['status']}"
        }
    for name in ("json", "html"):
        _remove_folder_names(paths[name], tree)
    document = json.loads(paths["json"].read_bytes())
    if of_outputs:
        paths["html"].write_text(outputs_page(document), encoding="utf-8")
    report = artifacts.put_file(paths["json"]).sha256
    return {
        **(outputs_fields(document) if of_outputs else fields_of(document)),
        "report": report,
        "capture": artifacts.put_file(_write_bundle(paths, output_folder)).sha256,
    }


def output_paths(folder: Path) -> dict[str, Path]:
    """Returns the paths of a triage's outputs in a folder."""
    return {"json": folder / "triage.json", "html": folder / "triage.html", "capture": folder / "capture"}


def _remove_folder_names(path: Path, tree: Path) -> None:
    """Removes this host's folder from the file names in an output, so that they are as submitted."""
    if path.is_file():
        path.write_bytes(path.read_bytes().replace(f"{tree}/".encode(), b""))


def command_words(task: JobTask, tree: Path, paths: Mapping[str, Path]) -> list[str]:
    """Returns the arguments of the command for a task. tree: the folder with the task's files. paths: the outputs' paths."""
    options, words = task.options, list[str]()

    def path(name: str) -> str:
        return str(tree / name.rstrip("/"))

    if options.get("capture"):
        words.append(path(options["capture"]))
    models = [*task.models, *([options["dump"]] if options.get("dump") else [])]
    if models:
        words += ["-m", ",".join(path(name) for name in models)]
    if task.inputs:
        words += ["-i", ",".join(_input(part, task, tree) for part in task.inputs.split(","))]
    for option in ("app_input", "app_output", "description"):
        if options.get(option):
            words += [f"--{option.replace('_', '-')}", path(options[option])]
    if not options.get("capture"):
        words += ["--capture", str(paths["capture"])]
    return [*words, "--json", str(paths["json"]), "--html", str(paths["html"]), "--quiet"]


def _input(part: str, task: JobTask, tree: Path) -> str:
    file_paths = {file.path for file in task.files}
    for colon in (-1, *(n for n, c in enumerate(part) if c == ":")):
        name = part[colon + 1 :].rstrip("/")
        if name and any(path == name or path.startswith(f"{name}/") for path in file_paths):
            return f"{part[: colon + 1]}{tree / name}"
    raise ValueError(f"inputs {part[:100]!r}: none of the job's files, and no folder of them")


def fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a JobResult (verdict, why, caveats, blame) for a triage's document."""
    verdict = document.get("verdict")
    rungs = [rung for rung in document.get("rungs", []) if rung.get("verdict") == verdict]
    rung = rungs[0] if rungs and verdict != "PASSED" else {}
    blame = rung.get("blame") or {}
    why = document.get("next_step") or rung.get("why") or ""
    gate = f"{rung['a']} ~ {rung['b']}: " if rung else ""
    return {
        "verdict": verdict if verdict in ("PASSED", "FAILED") else "INCONCLUSIVE",
        "why": f"{gate}{why}" if verdict != "PASSED" else "",
        "caveats": "; ".join(_caveats_of(document)),
        "blame_side": str(blame.get("side", "")),
        "blame_node": str(blame.get("node", "")),
        "nodes": tuple(str(name) for name in [blame["node"], *blame.get("also", [])] if name) if blame else (),
    }


def _caveats_of(document: Mapping[str, Any]) -> list[str]:
    """Returns the caveats of a triage's document and of its rungs, each once."""
    lists = [*(rung.get("caveats", []) for rung in document.get("rungs", [])), document.get("caveats", [])]
    return list(dict.fromkeys(str(text) for texts in lists for text in texts))


def _write_bundle(paths: Mapping[str, Path], output_folder: Path) -> Path:
    """Writes a .zip file with the triage's page, its document, and its capture, and returns the path."""
    path = output_folder / "bundle.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
        for name in ("html", "json"):
            if paths[name].is_file():
                bundle.write(paths[name], paths[name].name)
        if paths["capture"].is_dir():
            for file in sorted(paths["capture"].rglob("*")):
                if file.is_file():
                    bundle.write(file, f"capture/{file.relative_to(paths['capture']).as_posix()}")
    return path


def page_of(artifacts: ArtifactStore, bundle: str) -> bytes:
    """Returns the page in a triage's bundle. bundle: the bundle's SHA-256."""
    with artifacts.open(bundle) as file, zipfile.ZipFile(file) as content:
        if content.getinfo(PAGE).file_size > MAX_PAGE_BYTES:
            raise QVerifyError(f"the page is larger than {MAX_PAGE_BYTES >> 20} MB; take the bundle")
        return content.read(PAGE)
