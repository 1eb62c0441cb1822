"""The values that an engine carries: a job's task to a worker, and the result back. Both can be written as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
Ending = Literal["finished", "refused", "busy", "lost", "cancelled"]

WITH_VERDICT: tuple[Ending, ...] = ("finished", "refused")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a job.

    Attributes:
        path: The path at which the job sees it, relative, with forward slashes.
        sha256: The SHA-256 of its bytes, which is also their key in the artifact store.
        size: Its size in bytes.
    """

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class JobTask:
    """One attempt of one job, for a worker.

    Attributes:
        job: The job's id.
        attempt: The number of the attempt, from 1.
        board: The value for -b on the worker's host.
        board_name: The board's name in the farm.
        models: Paths of `files`, for -m.
        files: All files of the job.
        inputs: The value for -i with paths of `files`, or "" for random inputs. A path may be a folder of `files`.
        options: Keywords of qverify.verify that a job may have (work/job_options.py).
        timeout_s: The time after which the attempt ends as INCONCLUSIVE.
        artifacts: The URL of the artifact store.
        keep_capture: Whether to store a capture if the verdict is not PASSED.
        own_engines: Whether the job's engines may be written out, since they are those of the user who runs it.
        isolated: Whether to run in a child process, since an earlier attempt ended its process.
    """

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
    own_engines: bool = False
    isolated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values, from which from_json makes an equal task."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> JobTask:
        """Returns the task that to_json converted to these values."""
        files = tuple(StoredFile(**file) for file in values["files"])
        return cls(**{**values, "files": files, "models": tuple(values["models"])})


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of an attempt, at most 2 KB as JSON.

    Attributes:
        ending: "finished" if there is a verdict. "refused" if the job's files or options are wrong, the mistake of its submitter;
            the verdict is INCONCLUSIVE, and the job is not tried again. "busy" if the board was in use, no worker reaches it,
            the artifact store or the worker's disk is full, or the worker was stopped; the job is tried again, and this does
            not count as an attempt. "lost" if the worker died. "cancelled" if the attempt was cancelled.
        why: One line of at most 300 characters.
        gate: The criteria of the report's pairs, in words, at most 200 characters, or "".
        caveats: What weakens the verdict, in one line of at most 600 characters, or "".
        of_board: Whether the board itself caused the INCONCLUSIVE: it was not reached, died, or contradicted itself.
        blame_side: The blamed side, or "".
        blame_node: The blamed node, or "".
        nodes: The names of the first nodes that failed, at most 10.
        extent: The extent of the failure (failure_extent.py), with an entry for each of `nodes`; {} if it is not known.
        seconds: The duration of the attempt.
        board_seconds: The part of it for which the board was held.
        report: The SHA-256 of the report in the artifact store, or "".
        capture: The SHA-256 of the capture in the artifact store, or "".
        facts: What the board reported about itself (arch, version, temperature_c).
        worker: The name of the worker.
    """

    job: str
    attempt: int
    ending: Ending
    verdict: Verdict = "INCONCLUSIVE"
    why: str = ""
    caveats: str = ""
    gate: str = ""
    of_board: bool = False
    blame_side: str = ""
    blame_node: str = ""
    nodes: tuple[str, ...] = ()
    extent: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    board_seconds: float = 0.0
    report: str = ""
    capture: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    worker: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values, from which from_json makes an equal result."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> JobResult:
        """Returns the result that to_json converted to these values."""
        return cls(**{**values, "nodes": tuple(values["nodes"])})
