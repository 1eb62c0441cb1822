"""Makes tasks of the packaged example, with their files in an artifact store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify_farm.store.artifacts import ArtifactStore, open_artifacts
from qverify_farm.work.job_task import JobTask, StoredFile

NODE = "relu2_QuantizeLinear_Output"
FAULTY = f"faulty:local?fault=bitflip@{NODE}"
IMAGES = tuple(f"digits/digit_{at}.npy" for at in range(3))
ALL_NODES = {"dump_all_nodes_results": True}


@dataclass(frozen=True, slots=True)
class ExampleJobs:
    """The packaged example. store: contains its quantized network and three images. task(): returns a task with them."""

    store: ArtifactStore
    files: tuple[StoredFile, ...]

    @classmethod
    def make(cls, folder: Path) -> ExampleJobs:
        """Writes the example and stores its files."""
        write_example(str(folder / "example"))
        store = open_artifacts(str(folder / "store"))
        paths = (SOURCE, *IMAGES)
        stored = [store.put_file(folder / "example" / path) for path in paths]
        return cls(store, tuple(StoredFile(path, s.sha256, s.size) for path, s in zip(paths, stored, strict=True)))

    def task(self, board: str = "local", **more: Any) -> JobTask:
        """Returns a task on this board, which is its own name."""
        task = JobTask("job", 1, board, board, (SOURCE,), self.files, IMAGES[0], ALL_NODES, artifacts=self.store.url)
        return replace(task, **more)

    def with_file(self, path: str, data: bytes) -> ExampleJobs:
        """Returns the same with another file."""
        stored = self.store.put_bytes(data)
        return replace(self, files=(*self.files, StoredFile(path, stored.sha256, stored.size)))


def program(path: Path, text: str) -> str:
    """Writes an executable shell script and returns the address of a `local` board that runs it. QVRT in it: the path of
    the runtime of this machine."""
    from qverify_agents.binaries import host_architecture, runtime_path

    path.write_text(f"#!/bin/sh\n{text.replace('QVRT', str(runtime_path(host_architecture())))}\n")
    path.chmod(0o755)
    return f"local?runtime={path}"
