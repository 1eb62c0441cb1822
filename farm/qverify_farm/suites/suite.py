"""A suite as suite.toml says it, checked: what is run, on what, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Rules:
    """What a model may have of its own. retries: of an INCONCLUSIVE. timeout_s: of one attempt. options: keywords of
    qverify.verify. boards, runners: as they are written."""

    boards: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    retries: int = 0
    timeout_s: float = 900.0


@dataclass(frozen=True, slots=True)
class SuiteModel:
    """name: in jobs' names. files: of -m, by the path that a job sees. inputs: names of its inputs."""

    name: str
    files: dict[str, Path]
    inputs: tuple[str, ...]
    rules: Rules


@dataclass(frozen=True, slots=True)
class SuiteInputs:
    """One job's inputs. name: in jobs' names; "" for random ones alone. text: what -i takes, of paths as a job sees them;
    "" for random inputs. files: those paths, each with the file it is. options: of its own."""

    name: str
    text: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """folder: of suite.toml, to which its paths are relative. inputs: by name. more_files: that options name, by path as
    a job sees them. written: suite.toml as plain values. timeout_s: of the whole run, None for none."""

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
