"""The checked content of suite.toml: models, inputs, boards and rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Rules:
    """The keys that a model may override.

    Attributes:
        boards: The words of `boards`, as written.
        runners: The words of `runners`, as written.
        options: Keywords of qverify.verify.
        repeats: How often each job is run.
        retries: How often an INCONCLUSIVE job is tried again.
        timeout_s: The timeout of one attempt.
    """

    boards: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    retries: int = 0
    timeout_s: float = 900.0


@dataclass(frozen=True, slots=True)
class SuiteModel:
    """A model of a suite.

    Attributes:
        name: Its part of a job's name.
        files: The files for -m, by the path at which a job sees them.
        inputs: The names of its inputs.
    """

    name: str
    files: dict[str, Path]
    inputs: tuple[str, ...]
    rules: Rules


@dataclass(frozen=True, slots=True)
class SuiteInputs:
    """The inputs of a job.

    Attributes:
        name: Their part of a job's name; "" if the suite has random inputs only.
        text: The value for -i with the job's paths, or "" for random inputs.
        files: The files, by the path at which a job sees them.
        options: Options for these inputs.
    """

    name: str
    text: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite.

    Attributes:
        folder: The folder of suite.toml, to which its paths are relative.
        inputs: The inputs, by name.
        more_files: The files that options name, by the path at which a job sees them.
        timeout_s: The timeout of the whole run, or None.
        written: The values of suite.toml.
    """

    name: str
    folder: Path
    models: tuple[SuiteModel, ...]
    inputs: dict[str, SuiteInputs]
    more_files: dict[str, Path] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    board_wait_s: float = 900.0
    fail_fast: bool = False
    quarantine: int = 3
    keep_captures: bool = False
    baseline: bool = False
    priority: int = 0
    written: dict[str, Any] = field(default_factory=dict)
