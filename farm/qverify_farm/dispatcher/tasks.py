"""Makes the task that an engine carries from a job's row in the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.store.tables import JobRecord
from qverify_farm.work.job_task import JobTask, StoredFile


def task_of(
    job: JobRecord, attempt: int, definition: Mapping[str, Any], board: ReachedBoard, artifacts: str
) -> JobTask:
    """Returns the task of an attempt. definition: that of the job's run, with the digests of its files. artifacts: the URL
    of the artifact store."""
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
        own_engines=bool(settings.get("own_engines", False)),
        isolated=job.lost > 0,
    )


def files_of(stored: Mapping[str, Any], requested: Iterable[str]) -> list[StoredFile]:
    """Returns the files with the requested paths; a path that ends with / stands for every file in that folder. stored:
    the digest and the size of each file of the run, by path."""
    requested = list(requested)
    folders = tuple(path for path in requested if path.endswith("/"))
    paths = [path for path in requested if not path.endswith("/")]
    paths += [path for path in stored if folders and path.startswith(folders)]
    return [StoredFile(path, str(stored[path][0]), int(stored[path][1])) for path in dict.fromkeys(paths)]
