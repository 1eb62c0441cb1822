"""Collects the files of a job on this host, and uploads them to the server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from qverify.errors import UsageError
from qverify.files import open_regular
from qverify.onnx_model.load import read_model

from qverify_farm.client.http import FarmServer
from qverify_farm.suites.job_paths import JobPaths, inputs_of
from qverify_farm.work.job_options import FILES, paths_of
from qverify_farm.work.job_task import StoredFile

PIECE_BYTES = 1 << 20
ARTIFACTS = "/api/v1/artifacts"


@dataclass(slots=True)
class JobFiles:
    """The files of a job. On the farm they have other paths than on this host.

    Attributes:
        models: The farm's paths for -m.
        inputs: The value for -i, with the farm's paths.
        options: The job's options, with the farm's paths.
        sources: The local file or the bytes of each file, by the farm's path.
        given: What the caller called each file, by the farm's path.
    """

    models: tuple[str, ...]
    inputs: str
    options: dict[str, Any]
    sources: dict[str, Path | bytes]
    given: dict[str, str] = field(default_factory=dict)


def collect_job_files(models: Sequence[str], inputs: str | None, options: Mapping[str, Any]) -> JobFiles:
    """Returns the files of a job. An ONNX model with external data becomes one file. Raises UsageError or BadFileError for a
    missing file."""
    paths = JobPaths(Path.cwd())
    job_files = JobFiles((), "", dict(options), {})
    for model in models:
        farm_path = paths.of(Path(model))
        job_files.sources[farm_path], job_files.given[farm_path] = read_model(model), model
        job_files.models += (farm_path,)
    if inputs is not None:
        job_files.inputs, files = inputs_of(inputs, paths)
        job_files.sources |= files
        for given, farm_path in zip(inputs.split(","), job_files.inputs.split(","), strict=True):
            job_files.given[farm_path] = given
        job_files.given |= {
            farm_path: os.path.relpath(path) for farm_path, path in files.items() if farm_path not in job_files.given
        }
    for keyword in sorted(FILES & options.keys()):
        farm_paths = []
        for path in map(Path, paths_of(options[keyword])):
            if not path.is_file():
                raise UsageError(f"--{keyword}: {path}: no such file")
            farm_paths.append(paths.of(path))
            job_files.sources[farm_paths[-1]] = path
        job_files.options[keyword] = farm_paths[0] if isinstance(options[keyword], str) else farm_paths
    return job_files


def upload_files(server: FarmServer, sources: Mapping[str, Path | bytes]) -> list[StoredFile]:
    """Uploads the files that the server does not have yet, each once, and returns all files with their digests."""
    stored = [_stored_file(path, source) for path, source in sources.items()]
    sent_digests = set[str]()
    for file in stored:
        if file.sha256 in sent_digests:
            continue
        sent_digests.add(file.sha256)
        url = f"{ARTIFACTS}/{file.sha256}"
        if not server.has(url):
            pieces = partial(pieces_of, sources[file.path])
            server.put(url, pieces, file.size, name=os.path.basename(file.path))
    return stored


def _stored_file(path: str, source: Path | bytes) -> StoredFile:
    digest, size = hashlib.sha256(), 0
    for piece in pieces_of(source):
        digest.update(piece)
        size += len(piece)
    return StoredFile(path, digest.hexdigest(), size)


def pieces_of(source: Path | bytes) -> Iterator[bytes]:
    """Yields the bytes of a file, or these bytes, at most PIECE_BYTES at a time."""
    if isinstance(source, bytes):
        for start in range(0, len(source), PIECE_BYTES):
            yield source[start : start + PIECE_BYTES]
        return
    with os.fdopen(open_regular(str(source), follow=True), "rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
