"""Judges the dump that a bundle's run.sh wrote on a board, which takes the place of the board side."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

from qverify.compare.options import Options
from qverify.errors import BadFileError, UsageError
from qverify.files import parse_strict_json, read_regular
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.session.host_sides import HostSides, Watch
from qverify.session.job import JobOutcome
from qverify.session.make_report import make_report
from qverify.session.models import open_models
from qverify.session.offline.pack_bundle import SCHEMA
from qverify.session.run_evidence import RunEvidence
from qverify.sides.dumps.board_dump import read_board_dump
from qverify.tensors.prepared import PreparedInput, PreparedInputs

MAX_MANIFEST_BYTES, MAX_FILE_BYTES = 1 << 22, 1 << 31


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request to replay a bundle. bundle: folder that `qverify pack` wrote. dump: folder or tar of the board's dump,
    None for `dump` within the bundle. models: paths of further models. run_sim: also run the simulator."""

    bundle: str
    dump: str | None = None
    models: list[str] = field(default_factory=list)
    run_sim: bool = True
    options: Options = field(default_factory=Options)


def replay(request: ReplayRequest, watch: Watch | None = None) -> JobOutcome:
    """Runs reference and simulator on the bundle's inputs and compares them with the dump. Raises BadFileError for a
    damaged bundle, UsageError if there is nothing to compare the dump with."""
    manifest = _read_manifest(request.bundle)
    paths = [_check_file(request.bundle, manifest, "model.bin"), *request.models]
    if not request.models and "host/quant.onnx" in manifest["files"]:
        paths.append(_check_file(request.bundle, manifest, "host/quant.onnx"))
    models = open_models(paths)
    prepared = _read_inputs(request.bundle, manifest, models.graph)
    ran = HostSides(models).run(prepared, request.run_sim, watch)
    if not ran.recordings:
        raise UsageError("nothing to compare the dump with: give the quantized ONNX with -m, or -s True")
    path = request.dump or os.path.join(request.bundle, "dump")
    ran.recordings["board"] = read_board_dump(path, models.graph, hashlib.sha256(models.binary).hexdigest(), prepared)
    report = make_report(models, prepared, ran, request.options)
    return JobOutcome(report, list(models.graph.outputs), evidence=RunEvidence(prepared, ran, None))


def is_bundle(folder: str) -> bool:
    """Returns whether a folder has the manifest of a bundle, right or not."""
    path = os.path.join(folder, "manifest.json")
    try:
        return os.path.isfile(path) and SCHEMA.encode() in read_regular(path, MAX_MANIFEST_BYTES)
    except BadFileError:
        return False


def _read_manifest(folder: str) -> dict[str, Any]:
    """Returns `files` (hash by name) and `inputs` of a bundle's manifest. Raises BadFileError if it is missing or
    malformed."""
    path = os.path.join(folder, "manifest.json")
    try:
        manifest = parse_strict_json(read_regular(path, MAX_MANIFEST_BYTES))
        if manifest.get("schema") != SCHEMA:
            raise BadFileError(f"{path}: schema {manifest.get('schema')!r}, wanted {SCHEMA!r}")
        files = {str(n): str(v["sha256"]) for n, v in manifest["files"].items()}
        inputs = [
            {
                "name": str(i["name"]),
                "file": str(i["file"]),
                "source": printable(str(i["source"])),
                "seed": i.get("seed"),
            }
            for i in manifest["inputs"]
        ]
        if len({i["name"] for i in inputs}) != len(inputs):
            raise ValueError("two inputs of one name")
    except BadFileError as error:
        raise BadFileError(
            f"{error}; wanted a folder of --capture, or the one that qverify pack made (unpack a tarball first)"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFileError(f"{path}: not the manifest of a bundle: {error}") from error
    return {"files": files, "inputs": inputs}


def _check_file(folder: str, manifest: dict[str, Any], name: str) -> str:
    """Returns the path of a file of the bundle. Raises BadFileError if its hash is not that of the manifest."""
    path = os.path.join(folder, name)
    sha256 = hashlib.sha256(read_regular(path, MAX_FILE_BYTES)).hexdigest()
    if sha256 != manifest["files"].get(name):
        raise BadFileError(f"{path}: is not what was packed (its SHA-256 differs from the manifest's)")
    return path


def _read_inputs(folder: str, manifest: dict[str, Any], graph: Graph) -> PreparedInputs:
    """Returns the bundle's inputs in the order of the graph. Raises BadFileError if one is missing or damaged."""
    listed = {i["name"]: i for i in manifest["inputs"]}
    inputs = []
    for at, name in enumerate(graph.inputs):
        item = listed.get(name)
        if item is None or item["file"] != f"inputs/{at:04d}.bin":
            raise BadFileError(f"{folder}: its manifest names no input {name!r} of the model")
        data = read_regular(_check_file(folder, manifest, item["file"]), MAX_FILE_BYTES)
        spec = graph.spec(name)
        if len(data) != spec.size_bytes:
            raise BadFileError(f"{folder}/{item['file']}: {len(data)} bytes, wanted {spec.size_bytes}")
        inputs.append(
            PreparedInput(spec, data, item["source"], item["seed"] if isinstance(item["seed"], int) else None)
        )
    return PreparedInputs(tuple(inputs))
