"""Judges a bundle's dump on disk as the board side."""

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

MOST_MANIFEST, MOST_FILE = 1 << 22, 1 << 31


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay. bundle: folder of `qverify pack`. dump: the board's dump, by default the bundle's own. models:
    paths of further models."""

    bundle: str
    dump: str | None = None
    models: list[str] = field(default_factory=list)
    run_sim: bool = True
    options: Options = field(default_factory=Options)


def replay(request: ReplayRequest, watch: Watch | None = None) -> JobOutcome:
    """Runs reference and simulator on the bundle's inputs and compares them with the dump as the board side. Raises
    BadFileError for a damaged bundle."""
    manifest = _manifest(request.bundle)
    paths = [_file(request.bundle, manifest, "model.bin"), *request.models]
    if not request.models and "host/quant.onnx" in manifest["files"]:
        paths.append(_file(request.bundle, manifest, "host/quant.onnx"))
    models = open_models(paths)
    prepared = _prepared(request.bundle, manifest, models.graph)
    ran = HostSides(models).run(prepared, request.run_sim, watch)
    if not ran.recordings:
        raise UsageError("nothing to compare the dump with: give the quantized ONNX with -m, or -s True")
    path = request.dump or os.path.join(request.bundle, "dump")
    ran.recordings["board"] = read_board_dump(path, models.graph, hashlib.sha256(models.binary).hexdigest(), prepared)
    report = make_report(models, prepared, ran, request.options)
    return JobOutcome(report, list(models.graph.outputs), evidence=RunEvidence(prepared, ran, None))


def _manifest(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, "manifest.json")
    try:
        manifest = parse_strict_json(read_regular(path, MOST_MANIFEST))
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


def _file(folder: str, manifest: dict[str, Any], name: str) -> str:
    """Returns the path of a file of the bundle after checking its hash."""
    path = os.path.join(folder, name)
    got = hashlib.sha256(read_regular(path, MOST_FILE)).hexdigest()
    if got != manifest["files"].get(name):
        raise BadFileError(f"{path}: is not what was packed (its SHA-256 differs from the manifest's)")
    return path


def _prepared(folder: str, manifest: dict[str, Any], graph: Graph) -> PreparedInputs:
    """Returns the bundle's inputs in the graph's order."""
    listed = {i["name"]: i for i in manifest["inputs"]}
    inputs = []
    for at, name in enumerate(graph.inputs):
        item = listed.get(name)
        if item is None or item["file"] != f"inputs/{at:04d}.bin":
            raise BadFileError(f"{folder}: its manifest names no input {name!r} of the model")
        data = read_regular(_file(folder, manifest, item["file"]), MOST_FILE)
        spec = graph.spec(name)
        if len(data) != spec.size_bytes:
            raise BadFileError(f"{folder}/{item['file']}: {len(data)} bytes, wanted {spec.size_bytes}")
        inputs.append(
            PreparedInput(spec, data, item["source"], item["seed"] if isinstance(item["seed"], int) else None)
        )
    return PreparedInputs(tuple(inputs))
