"""What an engine carries: a job's task to a worker, and its result back. Both are plain values that JSON can write."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
Ending = Literal["finished", "busy", "lost", "cancelled"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a job. path: relative, with forward slashes, where the job sees it. sha256: of its bytes, under which the
    artifact store holds them. size: bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class JobTask:
    """One attempt of one job, for a worker. board: what -b takes on the worker's host. board_name: as the farm names it.
    models: paths of `files`, for -m. inputs: what -i takes, with paths of `files` ("" for random inputs; a folder is the
    folder of its files). options: keywords of qverify.verify that a job may have (work/job_options.py). timeout_s: after
    it the attempt is ended, INCONCLUSIVE. artifacts: URL of the artifact store. keep_capture: a capture of a run that is
    not PASSED is stored, too. isolated: runs in a child process, since an attempt before it ended its process."""

    job: str
    attempt: int
    board: str
    board_name: str
    models: tuple[str, ...]
    files: tuple[StoredFile, ...]
    inputs: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = 900.0
    artifacts: str = ""
    keep_capture: bool = False
    isolated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns plain values, from which from_json makes an equal task."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> JobTask:
        """Returns the task of these values, as to_json gave them."""
        files = tuple(StoredFile(**one) for one in values["files"])
        return cls(**{**values, "files": files, "models": tuple(values["models"])})


@dataclass(frozen=True, slots=True)
class JobResult:
    """What an attempt gave, at most 1 KB as JSON. ending: finished, or why there is no verdict to keep: busy (the board
    was, or no worker reaches it, or the artifact store or the worker's disk has no room: tried again, counts as no
    attempt), the worker was lost, the attempt was cancelled. why: one line of at most
    300 characters. of_board: an INCONCLUSIVE that the board itself is the reason for (not reached, died, contradicted
    itself). blame_side, blame_node: "" where nobody is blamed. nodes: of at most 10 nodes that failed. seconds: of the
    whole attempt. board_seconds: the part for which the board was held. report, capture: SHA-256 of artifacts, "" where
    there is none. facts: what the board said of itself (arch, version, temperature_c)."""

    job: str
    attempt: int
    ending: Ending
    verdict: Verdict = "INCONCLUSIVE"
    why: str = ""
    of_board: bool = False
    blame_side: str = ""
    blame_node: str = ""
    nodes: tuple[str, ...] = ()
    seconds: float = 0.0
    board_seconds: float = 0.0
    report: str = ""
    capture: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    worker: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns plain values, from which from_json makes an equal result."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> JobResult:
        """Returns the result of these values, as to_json gave them."""
        return cls(**{**values, "nodes": tuple(values["nodes"])})
