"""A suite made jobs: each model with each of its inputs on each of its boards, as often as it says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qverify import __version__
from qverify.onnx_model.load import read_model
from qverify.plural import count

from qverify_farm.errors import SuiteError
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.store.runs import NewJob
from qverify_farm.suites.board_words import Known, board_words
from qverify_farm.suites.suite import Suite, SuiteInputs, SuiteModel
from qverify_farm.suites.toml_table import Mistakes
from qverify_farm.work.job_options import FILES, check_options

MOST_JOBS = 100_000
Digests = Mapping[str, tuple[str, int]]  # SHA-256 and bytes by path


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A file that jobs need. model: it is read as -m reads it, with its external data."""

    path: Path
    model: bool


def files_of(suite: Suite) -> dict[str, SuiteFile]:
    """Returns every file of a suite's jobs, by the path that they see."""
    found: dict[str, SuiteFile] = {}
    for inputs in suite.inputs.values():
        found |= {seen: SuiteFile(path, False) for seen, path in inputs.files.items()}
    found |= {seen: SuiteFile(path, False) for seen, path in suite.more_files.items()}
    for model in suite.models:
        found |= {seen: SuiteFile(path, True) for seen, path in model.files.items()}
    return found


def take_in(suite: Suite, artifacts: Artifacts) -> dict[str, tuple[str, int]]:
    """Stores the bytes of every file as they are now, and returns their digests and sizes by path. What runs later is
    what was there now."""
    found = {}
    for seen, file in files_of(suite).items():
        stored = artifacts.put_bytes(read_model(str(file.path))) if file.model else artifacts.put_file(file.path)
        found[seen] = (stored.sha256, stored.size)
    return found


def definition_of(suite: Suite, digests: Digests) -> dict[str, Any]:
    """Returns what the database keeps of a run beside its jobs."""
    return {
        "name": suite.name,
        "files": {path: list(file) for path, file in digests.items()},
        "fail_fast": suite.fail_fast,
        "timeout_s": suite.timeout_s,
        "board_wait_s": suite.board_wait_s,
        "quarantine": suite.quarantine,
        "baseline": suite.baseline,
        "suite": suite.written,
    }


def jobs_of(suite: Suite, known: Known, digests: Digests | None = None) -> list[NewJob]:
    """Returns the jobs in the order of suite.toml, each with a name that is the same in every run. digests: of the files,
    None where nothing is submitted. SuiteError where there are none, too many, or options that do not fit."""
    mistakes = Mistakes()
    jobs = list(_jobs(suite, known, digests or {}, mistakes))
    if len(jobs) > MOST_JOBS:
        mistakes.add("", f"{len(jobs)} jobs; a suite has at most {MOST_JOBS}")
    if not jobs and not mistakes.lines:
        mistakes.add("", "no jobs: it has no models, no inputs or no boards")
    if mistakes.lines:
        raise SuiteError(f"{suite.name}: {count(len(mistakes.lines), 'mistake')}", mistakes.lines)
    return jobs


def _jobs(suite: Suite, known: Known, digests: Digests, mistakes: Mistakes) -> Iterator[NewJob]:
    paths = [*files_of(suite)]
    files_by_input = {name: _input_files(inputs, paths) for name, inputs in suite.inputs.items()}
    for model in suite.models:
        boards = board_words(model.rules.boards, model.rules.runners, known, "", mistakes)
        for name in model.inputs:
            inputs = suite.inputs[name]
            settings = _settings(suite, model, inputs, files_by_input[name], mistakes)
            settings["content"] = _content(settings, digests)
            for board in boards:
                for number in range(1, model.rules.repeats + 1):
                    words = [model.name, *([inputs.name] if inputs.name else []), board.label]
                    called = " ".join(words) + (f" #{number}" if model.rules.repeats > 1 else "")
                    yield NewJob(called[:500], model.name, board.wanted, settings, model.rules.retries)


def _settings(
    suite: Suite, model: SuiteModel, inputs: SuiteInputs, input_files: list[str], mistakes: Mistakes
) -> dict[str, Any]:
    options = {**model.rules.options, **inputs.options}
    named = [str(options[key]) for key in sorted(FILES & options.keys())]
    files = [*model.files, *input_files, *named]
    for line in check_options(options, {*model.files, *inputs.files, *named}, bool(inputs.text)):
        mistakes.add(" ".join(filter(None, (model.name, inputs.name))), line)
    return {
        "models": [*model.files],
        "inputs": inputs.text,
        "options": options,
        "files": list(dict.fromkeys(files)),
        "timeout_s": model.rules.timeout_s,
        "keep_capture": suite.keep_captures,
    }


def _input_files(inputs: SuiteInputs, paths: list[str]) -> list[str]:
    """Returns the files of inputs; their folder, with a / at its end, where they are all that the suite has in it."""
    folder = f"{inputs.text}/"
    inside = [path for path in paths if path.startswith(folder)]
    return [folder] if inside and set(inside) == inputs.files.keys() else [*inputs.files]


def _content(settings: Mapping[str, Any], digests: Digests) -> str:
    """Returns a digest of all that decides what a job computes: files, options, inputs, this version."""
    words = settings["files"]
    folders = tuple(word for word in words if word.endswith("/"))
    bytes_of = {word: digests[word] for word in words if word in digests}
    if folders:
        bytes_of |= {path: file for path, file in digests.items() if path.startswith(folders)}
    parts = [settings["models"], settings["inputs"], settings["options"], sorted(bytes_of.items()), __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
