"""Packs a bundle for a board without network: runtimes, model.bin, prepared inputs and run.sh, as folder or tar
(BUNDLE.md)."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from qverify_agents.binaries import MACHINES, runtime_path

from qverify import __version__
from qverify.errors import UsageError
from qverify.files import check_folder_writable, write_bytes
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import describe_islands
from qverify.session.models import open_models
from qverify.tensors.prepared import PreparedInputs

SCHEMA = "qverify.bundle/1"
TARS = (".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True, slots=True)
class PackedBundle:
    """A bundle that was written. files: number of files. bytes: their total size. dump_bytes: size of the dump that
    run.sh will write on the board. runtimes: the architectures it is for. tar: it is a tar file, not a folder."""

    path: str
    files: int
    bytes: int
    dump_bytes: int
    runtimes: list[str]
    tar: bool = False


def pack(
    paths: list[str],
    output: str,
    inputs: InputRequest | None = None,
    machines: tuple[str, ...] = (),
    onnx: bool = True,
) -> PackedBundle:
    """Writes a bundle. machines: names as `uname -m` prints them; () for all for which the runtime is built. onnx:
    include the quantized ONNX, so that replay needs no other file. Raises UsageError if the output exists, a machine is
    unknown, or the model has host islands."""
    _check_output(output)
    models = open_models(paths)
    if models.islands is not None:
        raise UsageError(
            f"{describe_islands(models.graph.islands)}: a board that no network reaches cannot wait for the host, so there is nothing to pack"
        )
    prepared = prepared_inputs(models.graph, inputs or InputRequest())
    runtimes = _runtimes(machines)
    files = {"model.bin": models.binary}
    files |= {f"inputs/{i:04d}.bin": item.data for i, item in enumerate(prepared.inputs)}
    files |= {f"bin/qvrt-{name}": path.read_bytes() for name, path in runtimes.items()}
    if onnx and models.original is not None:
        files["host/quant.onnx"] = models.original
    manifest = _manifest(models.graph, prepared, files)
    files["manifest.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    files["run.sh"] = run_sh(manifest).encode()
    files["README.txt"] = _readme(manifest).encode()
    if output.endswith(TARS):
        _write_tar(files, output)
    else:
        _write_folder(files, output)
    size, tar = sum(map(len, files.values())), output.endswith(TARS)
    return PackedBundle(output, len(files), size, manifest["dump_bytes"], list(runtimes), tar)


def _runtimes(machines: tuple[str, ...]) -> dict[str, Path]:
    unknown = [m for m in machines if m.lower() not in MACHINES]
    if unknown:
        raise UsageError(f"--arch {unknown[0]}: known machines are {', '.join(sorted(MACHINES))}")
    names = dict.fromkeys(MACHINES[m.lower()] for m in machines or MACHINES)
    return {name: runtime_path(name) for name in names}


def _manifest(graph: Graph, prepared: PreparedInputs, files: dict[str, bytes]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "qverify": __version__,
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()
        },
        "inputs": [
            {
                "name": item.spec.name,
                "file": f"inputs/{i:04d}.bin",
                "source": os.path.basename(item.source),
                "seed": item.seed,
            }
            for i, item in enumerate(prepared.inputs)
        ],
        "dump_bytes": sum(graph.spec(n).size_bytes for n in (*graph.observable(), *graph.outputs)),
    }


def run_sh(manifest: dict[str, Any]) -> str:
    """Returns the text of run.sh for this bundle. The script checks the hash of every file before it uses the file."""
    used_files = [n for n in manifest["files"] if not n.startswith(("host/", "bin/"))]
    checks = [f"check {shlex.quote(n)} {manifest['files'][n]['sha256']}" for n in used_files]
    runtimes = {n.removeprefix("bin/qvrt-"): v["sha256"] for n, v in manifest["files"].items() if n.startswith("bin/")}
    cases = [
        f"  {'|'.join(m for m, a in MACHINES.items() if a == arch)}) arch={arch} hash={sha} ;;"
        for arch, sha in runtimes.items()
    ]
    text = resources.files("qverify.session.offline").joinpath("run.sh").read_text()
    inputs = ",".join(item["file"] for item in manifest["inputs"])
    for placeholder, value in (
        ("@CASES@", "\n".join(cases)),
        ("@HAS@", " ".join(runtimes)),
        ("@CHECKS@", "\n".join(checks)),
        ("@INPUTS@", inputs),
        ("@VERSION@", manifest["qverify"]),
    ):
        text = text.replace(placeholder, value)
    return text


def _readme(manifest: dict[str, Any]) -> str:
    names = ", ".join(n.removeprefix("bin/") for n in manifest["files"] if n.startswith("bin/"))
    return f"""A model for a board, to be compared with its host (qverify {manifest["qverify"]}).

1. Copy this folder to the board in any way.
2. There:    sh run.sh            (or: sh run.sh FOLDER, to write the dump there)
   It needs a POSIX shell and about {manifest["dump_bytes"] / 1e6:.1f} MB for the dump; with --digests-only, next to nothing.
3. Copy the folder `dump` back (or a tar of it).
4. On the host:    qverify replay THIS_FOLDER --dump DUMP

Runtimes: {names}.
"""


def _write_folder(files: dict[str, bytes], output: str) -> None:
    """Writes the files to a temporary folder, which is then renamed to the output."""
    target = Path(output)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".qverify-", dir=target.parent))
        try:
            for name, data in files.items():
                path = temporary / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
                path.chmod(0o755 if _is_executable(name) else 0o644)
            temporary.chmod(0o755)
            temporary.replace(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from error


def _check_output(output: str) -> None:
    """Raises UsageError if the output exists (an empty folder may) or cannot be created."""
    kind = "file" if output.endswith(TARS) else "folder"
    empty = kind == "folder" and os.path.isdir(output) and not os.listdir(output)
    if os.path.lexists(output) and not empty:
        raise UsageError(f"{output}: exists already; name a {kind} that does not")
    check_folder_writable(output)


def _write_tar(files: dict[str, bytes], output: str) -> None:
    """Writes a tar without times and owners, so that the same content gives the same bytes."""
    top = os.path.basename(output).partition(".")[0] or "bundle"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(data), 0o755 if _is_executable(name) else 0o644
            tar.addfile(entry, io.BytesIO(data))
    plain = archive.getvalue()
    write_bytes(plain if output.endswith(".tar") else gzip.compress(plain, 6, mtime=0), output)


def _is_executable(name: str) -> bool:
    return name.startswith("bin/") or name == "run.sh"
