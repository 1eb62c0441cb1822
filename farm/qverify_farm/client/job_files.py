"""The files of a job on this host, as the job sees them, and their bytes on the way to the server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qverify.errors import UsageError
from qverify.files import open_regular
from qverify.onnx_model.load import read_model

from qverify_farm.client.http import FarmServer
from qverify_farm.suites.job_paths import JobPaths, inputs_of
from qverify_farm.work.job_options import FILES
from qverify_farm.work.job_task import StoredFile

PIECE = 1 << 20
ARTIFACTS = "/api/v1/artifacts"


@dataclass(slots=True)
class JobFiles:
    """models: as the job sees them, for -m. inputs: what -i takes there. options: with paths as the job sees them.
    sources: of each of the job's files, the file here, or its bytes. given: the words of the caller, by path."""

    models: tuple[str, ...]
    inputs: str
    options: dict[str, Any]
    sources: dict[str, Path | bytes]
    given: dict[str, str] = field(default_factory=dict)


def collect_job_files(models: Sequence[str], inputs: str | None, options: Mapping[str, Any]) -> JobFiles:
    """Returns the files of a job. An ONNX with external data becomes one file. UsageError or BadFileError for what is
    not there."""
    paths = JobPaths(Path.cwd())
    found = JobFiles((), "", dict(options), {})
    for model in models:
        seen = paths.of(Path(model))
        found.sources[seen], found.given[seen] = read_model(model), model
        found.models += (seen,)
    if inputs is not None:
        found.inputs, files = inputs_of(inputs, paths)
        found.sources |= files
        for given, seen in zip(inputs.split(","), found.inputs.split(","), strict=True):
            found.given[seen] = given
        found.given |= {seen: os.path.relpath(path) for seen, path in files.items() if seen not in found.given}
    for keyword in sorted(FILES & options.keys()):
        path = Path(str(options[keyword]))
        if not path.is_file():
            raise UsageError(f"--{keyword}: {path}: no such file")
        found.options[keyword] = paths.of(path)
        found.sources[found.options[keyword]] = path
    return found


def upload_files(server: FarmServer, sources: Mapping[str, Path | bytes]) -> list[StoredFile]:
    """Uploads the files that the server has not, each once, in pieces; returns all of them."""
    stored = [_stored(path, source) for path, source in sources.items()]
    there = set[str]()
    for file in stored:
        if file.sha256 in there:
            continue
        there.add(file.sha256)
        at = f"{ARTIFACTS}/{file.sha256}"
        if not server.has(at):
            server.put(at, pieces_of(sources[file.path]), file.size, name=os.path.basename(file.path))
    return stored


def _stored(path: str, source: Path | bytes) -> StoredFile:
    digest, size = hashlib.sha256(), 0
    for piece in pieces_of(source):
        digest.update(piece)
        size += len(piece)
    return StoredFile(path, digest.hexdigest(), size)


def pieces_of(source: Path | bytes) -> Iterator[bytes]:
    """Yields the bytes of a file, or these bytes, at most PIECE at a time."""
    if isinstance(source, bytes):
        for at in range(0, len(source), PIECE):
            yield source[at : at + PIECE]
        return
    with os.fdopen(open_regular(str(source), follow=True), "rb") as file:
        while piece := file.read(PIECE):
            yield piece
