"""A row of the database, made the task that an engine carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.store.tables import Job
from qverify_farm.work.job_task import JobTask, StoredFile


def task_of(job: Job, attempt: int, definition: Mapping[str, Any], board: ReachedBoard, artifacts: str) -> JobTask:
    """Returns the task of an attempt. definition: of the job's run, whose files have digests. artifacts: URL of their
    store."""
    settings = job.settings
    return JobTask(
        job=job.id,
        attempt=attempt,
        board=board.address,
        board_name=board.name,
        models=tuple(settings["models"]),
        files=tuple(files_of(definition["files"], settings["files"])),
        inputs=settings.get("inputs", ""),
        options=dict(settings.get("options", {})),
        timeout_s=float(settings.get("timeout_s", 900.0)),
        artifacts=artifacts,
        keep_capture=bool(settings.get("keep_capture", False)),
        isolated=job.lost > 0,
    )


def files_of(known: Mapping[str, Any], wanted: Iterable[str]) -> list[StoredFile]:
    """Returns the files of these paths; of a path that ends with /, every file in that folder. known: digest and size by
    path."""
    words = list(wanted)
    folders = tuple(word for word in words if word.endswith("/"))
    paths = [word for word in words if not word.endswith("/")]
    paths += [path for path in known if folders and path.startswith(folders)]
    return [StoredFile(path, str(known[path][0]), int(known[path][1])) for path in dict.fromkeys(paths)]
