"""Reads suite.toml and reports all mistakes in it at once, before anything runs. SUITES.md describes the keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.plural import count

from qverify_farm.errors import SuiteError
from qverify_farm.suites.board_words import BoardTags, parse_board_words
from qverify_farm.suites.job_paths import JobPaths, inputs_of
from qverify_farm.suites.suite import Rules, Suite, SuiteInputs, SuiteModel
from qverify_farm.suites.toml_table import Mistakes, Table, as_toml
from qverify_farm.work.job_options import FILES, check_options, paths_of

MAX_BYTES = 4 << 20
SHARED = ("boards", "runners", "gates", "options", "repeats", "retries", "timeout")  # keys of the file and of a model
KEYS = (
    *("name", "models", "inputs", "datasets", *SHARED, "suite_timeout", "board_wait", "fail_fast", "quarantine"),
    *("keep_captures", "baseline", "priority", "labels"),
)
MODEL_KEYS = ("name", "files", "inputs", *SHARED)
INPUT_KEYS = ("name", "path", "random", "description", "labels", "options")
DATASET_KEYS = ("name", "path", "split", "description", "labels", "options")
RANDOM = "random"


def read_suite(path: str, tags_by_board: BoardTags) -> Suite:
    """Returns the suite in a file. tags_by_board: the boards that exist. Raises BadFileError if the file is not TOML, and
    SuiteError with a line for each mistake."""
    try:
        written = tomllib.loads(read_regular(path, MAX_BYTES, follow=True).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadFileError(f"{path}: not TOML: {' '.join(str(error).split())[:200]}") from error
    return suite_of(written, Path(path).absolute(), tags_by_board)


def suite_of(written: Mapping[str, Any], path: Path, tags_by_board: BoardTags) -> Suite:
    """Returns the suite with these values of suite.toml. path: the path of suite.toml. Raises SuiteError as read_suite()."""
    reader = _Reader(written, path, tags_by_board)
    suite = reader.suite()
    if reader.mistakes.lines:
        raise SuiteError(f"{path.name}: {count(len(reader.mistakes.lines), 'mistake')}", reader.mistakes.lines)
    return suite


class _Reader:
    def __init__(self, written: Mapping[str, Any], path: Path, tags_by_board: BoardTags):
        self.mistakes = Mistakes()
        self._top = Table(written, "", self.mistakes)
        self._written, self._path, self._tags_by_board = written, path, tags_by_board
        self._paths = JobPaths(path.parent)
        self._more_files: dict[str, Path] = {}
        self._inputs: dict[str, SuiteInputs] = {}

    def suite(self) -> Suite:
        top = self._top
        top.check_keys(KEYS)
        name = top.text("name", re.sub(r"\s+", "_", self._path.stem)[:200])
        shared = self._parse_rules(top, Rules())
        default = tuple(self._read_inputs())
        models = self._parse_models(default, shared)
        timeout = top.seconds("suite_timeout", 1e7) if "suite_timeout" in top else None
        return Suite(
            name,
            self._path.parent,
            models,
            self._inputs,
            self._more_files,
            top.pairs("labels"),
            timeout,
            top.seconds("board_wait", 900.0),
            top.boolean("fail_fast"),
            top.integer("quarantine", 3, 0, 1000),
            top.boolean("keep_captures"),
            top.boolean("baseline"),
            top.integer("priority", 0, -1000, 1000),
            dict(self._written),
        )

    # models

    def _parse_models(self, default: tuple[str, ...], shared: Rules) -> tuple[SuiteModel, ...]:
        entries = self._top.get("models")
        if not isinstance(entries, list) or not entries:
            self._top.add_mistake("models", 'wanted a list, as ["quant.onnx,model.bin"], or tables [[models]]')
            return ()
        models: dict[str, SuiteModel] = {}
        for number, entry in enumerate(entries, 1):
            for model in self._parse_model(entry, f"models {number}", default, shared):
                if model.name in models:
                    self.mistakes.add(
                        f"models {number}", f"two models are named {model.name}; give one a name of its own"
                    )
                models[model.name] = model
        return tuple(models.values())

    def _parse_model(self, entry: Any, where: str, default: tuple[str, ...], shared: Rules) -> list[SuiteModel]:
        if isinstance(entry, str):
            table = Table({"files": entry}, where, self.mistakes)
        elif isinstance(entry, dict):
            table = Table(entry, where, self.mistakes)
            table.check_keys(MODEL_KEYS)
        else:
            self.mistakes.add(where, f"{as_toml(entry)}: wanted a text, or a table")
            return []
        rules = self._parse_rules(table, shared) if isinstance(entry, dict) else shared
        if not rules.boards:
            self.mistakes.add("", 'boards: wanted a list, as ["desk", "soc=j5", "all:soc=j5"]')
        inputs = self._named_inputs(table) if "inputs" in table else default
        groups = self._model_files(table)
        if len(groups) > 1 and "name" in table:
            table.add_mistake("name", f"the files are {len(groups)} models; leave the name out, or name one")
        return [SuiteModel(self._name(table, _plain_name(_stem(g))), g, inputs, rules) for g in groups]

    def _model_files(self, table: Table) -> list[dict[str, Path]]:
        """Returns the files of each model. A text with * in it stands for a model for each file that matches."""
        words = table.texts("files")
        if not words:
            if "files" not in table or table.get("files") == []:
                table.mistakes.add(table.where, 'files: wanted those of -m, as "quant.onnx,model.bin"')
            return []
        names = [name for word in words for name in word.split(",") if name]
        if len(names) == 1 and any(c in names[0] for c in "*?["):
            groups = [self._model_file(str(path), table) for path in self._matching(names[0], table)]
            return [group for group in groups if group]
        merged: dict[str, Path] = {}
        for name in names:
            merged |= self._model_file(name, table)
        return [merged] if len(merged) == len(names) else []

    def _matching(self, pattern: str, table: Table) -> list[Path]:
        try:
            paths = sorted(path for path in self._path.parent.glob(pattern) if path.is_file())
        except (ValueError, NotImplementedError) as error:
            table.mistakes.add(table.where, f"files: {pattern}: {error}")
            return []
        if not paths:
            table.mistakes.add(table.where, f"files: {pattern}: no file of {self._path.parent} matches")
        return paths

    def _model_file(self, name: str, table: Table) -> dict[str, Path]:
        """Returns the file by the path at which a job sees it, or {} if the file is missing."""
        path = self._paths.absolute(name)
        try:
            if not path.is_file():
                raise UsageError(f"{name}: no such file in {self._path.parent}")
            return {self._paths.of(path): path}
        except UsageError as error:
            table.mistakes.add(table.where, f"files: {error}")
            return {}

    def _name(self, table: Table, default: str) -> str:
        name = table.text("name", default, 100)
        if not re.fullmatch(r"[^\s/#]+", name):
            table.add_mistake("name", "wanted a name without blanks, / and #")
        return name

    # inputs

    def _read_inputs(self) -> list[str]:
        """Reads inputs and datasets, and returns their names. Without any, the only inputs are random."""
        names = []
        for key, keys in (("inputs", INPUT_KEYS), ("datasets", DATASET_KEYS)):
            entries = self._top.get(key)
            entries = [entries] if isinstance(entries, str) else entries
            if entries is not None and (not isinstance(entries, list) or not entries):
                self._top.add_mistake(key, f'wanted a list, as ["frames"], or tables [[{key}]]')
                continue
            for number, entry in enumerate(entries or (), 1):
                names += self._add_inputs(self._parse_inputs(entry, f"{key} {number}", keys), f"{key} {number}")
        return names or self._add_inputs([SuiteInputs("")], "inputs")

    def _add_inputs(self, entries: list[SuiteInputs], where: str) -> list[str]:
        for inputs in entries:
            if inputs.name in self._inputs and self._inputs[inputs.name] != inputs:
                self.mistakes.add(where, f"two inputs are named {inputs.name}; give one a name of its own")
            self._inputs[inputs.name] = inputs
        return [inputs.name for inputs in entries]

    def _parse_inputs(self, entry: Any, where: str, keys: tuple[str, ...]) -> list[SuiteInputs]:
        if isinstance(entry, str):
            entry = {"random": True} if entry == RANDOM else {"path": entry}
        if not isinstance(entry, dict):
            self.mistakes.add(where, f"{as_toml(entry)}: wanted a text, or a table")
            return []
        table = Table(entry, where, self.mistakes)
        table.check_keys(keys)
        options = self._options(table)
        for key in FILES & {"description", "labels"}:
            if key in table:
                options[key] = table.text(key)
        options = self._with_files(options, table)
        if table.boolean("random") and "path" in table:
            table.add_mistake("path", "random = true makes the inputs; wanted one of the two")
            return []
        if table.boolean("random") or ("random" in table and "path" not in table):
            return [SuiteInputs(self._name(table, RANDOM), options=options)]
        text = table.text("path", "", 10_000)
        if not text:
            table.mistakes.add(where, "path: wanted what -i takes: a file, a folder, or a list (.txt) of frames")
            return []
        return self._inputs_of_path(text, table, options)

    def _inputs_of_path(self, text: str, table: Table, options: dict[str, Any]) -> list[SuiteInputs]:
        name = self._name(table, _plain_name(Path(text.split(",")[0].rpartition(":")[2]).name or "inputs"))
        try:
            job_path, files = inputs_of(text, self._paths)
        except (UsageError, BadFileError, OSError) as error:
            table.mistakes.add(table.where, f"path: {error}")
            return []
        if "split" not in table:
            return [SuiteInputs(name, job_path, files, options)]
        frames_per_job = table.integer("split", 1, 1, 1_000_000)
        if any(path.endswith("/manifest.json") for path in files) or not (self._path.parent / text).is_dir():
            table.add_mistake("split", "wanted a folder of frames, without manifest.json")
            return []
        frames = sorted(path for path in files if path != options.get("labels"))
        pieces = [frames[at : at + frames_per_job] for at in range(0, len(frames), frames_per_job)]
        return [
            SuiteInputs(f"{name}.{number}", job_path, {path: files[path] for path in piece}, options)
            for number, piece in enumerate(pieces, 1)
        ]

    def _named_inputs(self, table: Table) -> tuple[str, ...]:
        """Returns the names of a model's inputs. A word is the name of inputs of the file, the name of a dataset (for all its
        pieces), or a path."""
        names: list[str] = []
        for word in table.texts("inputs"):
            pieces = [n for n in self._inputs if n == word or re.fullmatch(rf"{re.escape(word)}\.\d+", n)]
            names += pieces or self._add_inputs(self._parse_inputs(word, table.where, INPUT_KEYS), table.where)
        return tuple(names)

    # rules

    def _parse_rules(self, table: Table, shared: Rules) -> Rules:
        boards = table.texts("boards") if "boards" in table else shared.boards
        runners = table.texts("runners") if "runners" in table else shared.runners
        options = {**shared.options, **self._with_files(self._options(table), table)}
        if "gates" in table:
            options["gate"] = self._gates(table)
        if boards and ("boards" in table or "runners" in table):
            parse_board_words(boards, runners, self._tags_by_board, table.where, self.mistakes)
        return Rules(
            boards,
            runners,
            options,
            table.integer("repeats", shared.repeats, 1, 10_000),
            table.integer("retries", shared.retries, 0, 100),
            table.seconds("timeout", shared.timeout_s),
        )

    def _gates(self, table: Table) -> list[str]:
        gates = list(table.texts("gates"))
        for line in check_options({"gate": gates}, (), True):
            self.mistakes.add(table.where, f"gates: {line.removeprefix('gate: ')}")
        return gates

    def _options(self, table: Table) -> dict[str, Any]:
        options = dict(table.table("options"))
        for line in check_options({k: v for k, v in options.items() if k not in FILES}, (), True, own_engines=True):
            self.mistakes.add(table.where, f"options.{line}")
        return options

    def _with_files(self, options: dict[str, Any], table: Table) -> dict[str, Any]:
        """Replaces the paths in options by the job's paths, and adds their files to the suite. Returns the options."""
        for key in FILES & options.keys():
            job_paths = [self._with_file(name, key, table) for name in paths_of(options[key])]
            options[key] = job_paths if isinstance(options[key], list) else job_paths[0]
        return options

    def _with_file(self, name: str, key: str, table: Table) -> str:
        """Adds a file that an option names to the suite, and returns the path at which a job sees it."""
        path = self._paths.absolute(name)
        try:
            job_path = self._paths.of(path)
            if key == "labels" and path.is_dir():
                self._more_files |= inputs_of(name, self._paths)[1]
                return job_path
            if not path.is_file():
                raise UsageError(f"{name}: no such file in {self._path.parent}")
            self._more_files[job_path] = path
        except UsageError as error:
            table.mistakes.add(table.where, f"{key}: {error}")
            return name
        return job_path


def _stem(files: Mapping[str, Path]) -> str:
    return next(iter(files.values())).stem


def _plain_name(text: str) -> str:
    return re.sub(r"[\s/#]+", "_", text) or "model"
