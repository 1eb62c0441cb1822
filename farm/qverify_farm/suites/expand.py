"""Expands a suite into jobs: each model with each of its inputs on each of its boards, `repeats` times."""

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
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.runs import NewJob
from qverify_farm.suites.board_words import BoardTags, parse_board_words
from qverify_farm.suites.suite import Suite, SuiteInputs, SuiteModel
from qverify_farm.suites.toml_table import Mistakes
from qverify_farm.work.job_options import FILES, check_options, paths_of

MAX_JOBS = 100_000
Digests = Mapping[str, tuple[str, int]]  # SHA-256 and size in bytes, by path


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A file that jobs need. `model` is true for a model, whose external data is stored with it."""

    path: Path
    model: bool


def files_of(suite: Suite) -> dict[str, SuiteFile]:
    """Returns every file of a suite's jobs, by the path at which the jobs see it."""
    files: dict[str, SuiteFile] = {}
    for inputs in suite.inputs.values():
        files |= {job_path: SuiteFile(path, False) for job_path, path in inputs.files.items()}
    files |= {job_path: SuiteFile(path, False) for job_path, path in suite.more_files.items()}
    for model in suite.models:
        files |= {job_path: SuiteFile(path, True) for job_path, path in model.files.items()}
    return files


def store_files(suite: Suite, artifacts: ArtifactStore) -> dict[str, tuple[str, int]]:
    """Stores the present bytes of every file, and returns their digests and sizes by path. Later changes of the files do not
    affect the jobs."""
    files = {}
    for job_path, file in files_of(suite).items():
        stored = artifacts.put_bytes(read_model(str(file.path))) if file.model else artifacts.put_file(file.path)
        files[job_path] = (stored.sha256, stored.size)
    return files


def definition_of(suite: Suite, digests: Digests) -> dict[str, Any]:
    """Returns the definition of a run, as the database stores it beside the run's jobs."""
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


def jobs_of(suite: Suite, tags_by_board: BoardTags, digests: Digests | None = None) -> list[NewJob]:
    """Returns the jobs in the order of suite.toml, each with a name that is the same in every run. digests: the digests of the
    files, or None if the jobs are not submitted. Raises SuiteError if there are no jobs, too many, or wrong options."""
    mistakes = Mistakes()
    jobs = list(_generate_jobs(suite, tags_by_board, digests or {}, mistakes))
    if len(jobs) > MAX_JOBS:
        mistakes.add("", f"{len(jobs)} jobs; a suite has at most {MAX_JOBS}")
    if not jobs and not mistakes.lines:
        mistakes.add("", "no jobs: it has no models, no inputs or no boards")
    if mistakes.lines:
        raise SuiteError(f"{suite.name}: {count(len(mistakes.lines), 'mistake')}", mistakes.lines)
    return jobs


def _generate_jobs(suite: Suite, tags_by_board: BoardTags, digests: Digests, mistakes: Mistakes) -> Iterator[NewJob]:
    paths = [*files_of(suite)]
    files_by_input = {name: _input_files(inputs, paths) for name, inputs in suite.inputs.items()}
    for model in suite.models:
        boards = parse_board_words(model.rules.boards, model.rules.runners, tags_by_board, "", mistakes)
        for name in model.inputs:
            inputs = suite.inputs[name]
            settings = _settings(suite, model, inputs, files_by_input[name], paths, mistakes)
            settings["content"] = _content_digest(settings, digests)
            for board in boards:
                for number in range(1, model.rules.repeats + 1):
                    words = [model.name, *([inputs.name] if inputs.name else []), board.label]
                    job_name = " ".join(words) + (f" #{number}" if model.rules.repeats > 1 else "")
                    yield NewJob(job_name[:500], model.name, board.wanted, settings, model.rules.retries)


def _settings(
    suite: Suite,
    model: SuiteModel,
    inputs: SuiteInputs,
    input_files: list[str],
    paths: list[str],
    mistakes: Mistakes,
) -> dict[str, Any]:
    options = {**model.rules.options, **inputs.options}
    named = [path for key in sorted(FILES & options.keys()) for path in paths_of(options[key])]
    inside = {path for path in paths if path.startswith(tuple(f"{name}/" for name in named))}
    option_files = [f"{name}/" if any(p.startswith(f"{name}/") for p in inside) else name for name in named]
    files = [*model.files, *input_files, *option_files]
    for line in check_options(
        options, {*model.files, *inputs.files, *named, *inside}, bool(inputs.text), own_engines=True
    ):
        mistakes.add(" ".join(filter(None, (model.name, inputs.name))), line)
    return {
        "models": [*model.files],
        "inputs": inputs.text,
        "options": options,
        "files": list(dict.fromkeys(files)),
        "timeout_s": model.rules.timeout_s,
        "keep_capture": suite.keep_captures,
        "own_engines": True,  # suite.toml is a file of the user who runs it
    }


def _input_files(inputs: SuiteInputs, paths: list[str]) -> list[str]:
    """Returns the paths of inputs. If they are all files of the suite in a folder, returns the folder with a final / instead."""
    folder = f"{inputs.text}/"
    inside = [path for path in paths if path.startswith(folder)]
    return [folder] if inside and set(inside) == inputs.files.keys() else [*inputs.files]


def _content_digest(settings: Mapping[str, Any], digests: Digests) -> str:
    """Returns a digest of everything that a job's results depend on: files, options, inputs and the version of qverify."""
    paths = settings["files"]
    folders = tuple(path for path in paths if path.endswith("/"))
    file_digests = {path: digests[path] for path in paths if path in digests}
    if folders:
        file_digests |= {path: file for path, file in digests.items() if path.startswith(folders)}
    parts = [settings["models"], settings["inputs"], settings["options"], sorted(file_digests.items()), __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
