"""The results of engines that are further sides. On the same model and inputs, an engine of the same versions runs once on a
host, for the jobs of all boards."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import astuple

from qverify.engines import ChosenSide, option
from qverify.session.chosen_sides import ChosenSides
from qverify.session.engine_sides import EngineSides
from qverify.session.host_sides import SideResults
from qverify.session.models import Models
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

from qverify_farm.work.host_results import HostResult, HostResults, result_key

VERSIONS = """
import importlib.metadata, sys
print(sys.version, *sorted({"%s %s" % (d.metadata["Name"], d.version) for d in importlib.metadata.distributions()}), sep="\\n")
"""
VERSIONS_S = 60.0
KEPT_BY_ENGINE = ("cache",)  # options whose folder the engine itself fills


class StoredEngines(EngineSides):
    """The engines of one job, with results that are stored on this host's disk.

    Attributes:
        used: The stored results that the job used, by key.
    """

    def __init__(
        self,
        sides: ChosenSides,
        models: Models,
        deadline_s: float,
        store: HostResults,
        hold_key: Callable[[str], AbstractContextManager[None]],
        scope: str,
    ):
        """hold_key: a lock among the threads of this process. scope: names this process; results of an engine whose versions
        are not known are not used beyond it."""
        super().__init__(sides, models, deadline_s)
        self._graph, self._store, self._hold_key, self._scope = models.graph, store, hold_key, scope
        self._programs = dict[str, list[str]]()
        self._not_stored = dict[str, Recording]()
        self.used = dict[str, HostResult]()

    def run_side(self, side: ChosenSide, prepared: PreparedInputs) -> Recording:
        """Returns the stored recording of an engine on these inputs. Without one, runs the engine, and stores a recording that is
        complete; another counts for this job alone."""
        key = self._key(side, prepared)
        if key in self._not_stored:
            return self._not_stored[key]
        with self._hold_key(f"engine {key}"), self._store.lock(key):
            result = self._store.get(key, self._graph)
            if result is None:
                recording = super().run_side(side, prepared)
                if recording.state == "complete":
                    self._store.put(key, SideResults({side.side: recording}))
                    result = self._store.get(key, self._graph)
                if result is None:
                    return self._not_stored.setdefault(key, recording)
        self.used[key] = result
        return next(iter(result.fresh().recordings.values()))

    def _key(self, side: ChosenSide, prepared: PreparedInputs) -> str:
        """Returns the key of a result: of the model's bytes, the tensors that are wanted, the inputs, and the engine with its options,
        files, interpreter and the versions in it."""
        if side.side not in self._programs:
            assert side.page is not None
            options = [[key, *values] for key, values in sorted(side.page.options.items())]
            files = [_content(value) for key, *values in options if key not in KEPT_BY_ENGINE for value in values]
            wanted = [*self._graph.inputs, *self._graph.observable()]
            specs = [astuple(self._graph.spec(name)) for name in wanted]
            model = hashlib.sha256(self.file_of(side)).hexdigest()
            fields = [side.side, side.engine, options, files, model, specs, self._graph.outputs, self._program(side)]
            self._programs[side.side] = [hashlib.sha256(repr(fields).encode()).hexdigest()]
        return result_key("engine", *self._programs[side.side], prepared.sha256)

    def _program(self, side: ChosenSide) -> list[str]:
        """Returns what identifies the program that an engine is: the driver, and the versions in its interpreter."""
        assert side.page is not None
        page, options = side.page.page, side.page.options
        files = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in page.files(options).items())
        if "python" not in page.OPTIONS:  # a command of the user
            words = [_content(shutil.which(w) or w) for value in options.get("command", ()) for w in _words(value)]
            return [self._scope, *words, repr(files)]
        return [_versions(option(options, "python", "python3")) or self._scope, repr(files)]


def _versions(python: str) -> str:
    """Returns the versions of an interpreter and of every package in it, "" if it does not tell them."""
    try:
        told = subprocess.run(
            [*_words(python), "-c", VERSIONS],
            capture_output=True,
            timeout=VERSIONS_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.decode(errors="replace")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _content(path: str) -> str:
    """Returns a digest of a file, or of the names, sizes and times in a folder; "" for a text that is neither."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(repr([*_listing(path)]).encode()).hexdigest() if path and os.path.isdir(path) else ""


def _listing(folder: str) -> Iterable[tuple[str, int, int]]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            facts = os.lstat(os.path.join(parent, name))
            yield os.path.relpath(os.path.join(parent, name), folder), facts.st_size, facts.st_mtime_ns
