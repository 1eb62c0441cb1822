"""Opens the files of -m and checks that they belong together; they are recognised by content, never by extension."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from qverify.compiler.compile_model import Compiled, CompileOptions, compile_model
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.container import MAGIC
from qverify.model_bin.graph import MAX_DIM, Graph
from qverify.model_bin.islands import describe_islands
from qverify.model_bin.records import decode, encode
from qverify.onnx_model.load import is_quantized, parse, read_model
from qverify.session.model_claims import contradiction
from qverify.session.tflite_alone import TfliteAlone, open_tflite
from qverify.sides.host_islands import HostIslands

FOREIGN = {
    b"\x4b\x4e\x4e\x52": "Rockchip RKNN",
    b"RKNN": "Rockchip RKNN",
    b"PK\x03\x04": "a zip archive",
}


@dataclass
class Models:
    """The opened models. binary: model.bin bytes (compiled in memory when none was given). compiled, original: None
    without quant.onnx. rows: for the report. tflite: the .tflite that a board runs by LiteRT, and its map of
    tensors (sides/litert_board.py)."""

    graph: Graph
    binary: bytes
    compiled: Compiled | None = None
    original: bytes | None = None
    rows: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)  # reservations that every verdict states
    tflite: tuple[bytes, dict[str, dict[str, Any]]] | None = None
    alone: TfliteAlone | None = None  # the .tflite is the whole model: LiteRT on this host is the reference

    @property
    def integer_onnx(self) -> bytes | None:
        """Returns the integer ONNX, serialized; None without quant.onnx."""
        return None if self.compiled is None else self.compiled.integer_onnx

    @cached_property
    def islands(self) -> HostIslands | None:
        """Returns what computes the graph's host islands; None where it has none."""
        return HostIslands(self.compiled.integer_onnx, self.graph) if self.graph.islands and self.compiled else None


def parse_shapes(values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of NAME=1,3,224,224 options by name. UsageError for any other form."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, _, dims = value.rpartition("=")
        try:
            shape = tuple(int(d) for d in dims.split(","))
        except ValueError:
            name, shape = "", ()
        if not name or any(not 1 <= d <= MAX_DIM for d in shape):
            raise UsageError(f"--shape {value}: wanted NAME=1,3,224,224 with dims of at least 1, at most {MAX_DIM}")
        if shapes.setdefault(name, shape) != shape:
            raise UsageError(
                f"--shape {value}: another --shape gives {name!r} the dims {_join_dims(shapes[name])}; give one"
            )
    return shapes


def _join_dims(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def open_models(
    paths: list[str],
    shapes: dict[str, tuple[int, ...]] | None = None,
    allow_other: bool = False,
    host: bool = True,
) -> Models:
    """Opens the files of -m. UsageError or BadFileError for foreign files, two of one kind, or a model.bin compiled
    from another ONNX (unless allow_other). host: nodes that no kernel serves may be computed on the host."""
    binary: tuple[str, bytes] | None = None
    quantized: tuple[str, bytes] | None = None
    tflite: tuple[str, bytes] | None = None
    rows = []
    for path in paths:
        data = read_model(path)
        kind = kind_of(path, data)
        rows.append({"path": os.path.basename(path), "sha256": hashlib.sha256(data).hexdigest(), "kind": kind})
        if kind == "model.bin":
            binary = _check_first(binary, path, data, kind)
        elif kind == "quant.onnx":
            quantized = _check_first(quantized, path, data, kind)
        elif kind == "tflite":
            tflite = _check_first(tflite, path, data, kind)
        else:
            raise UsageError(
                f"{path}: got a float ONNX (it has no quantized operator), wanted the quantized ONNX, model.bin or both; "
                "`qverify triage` takes a float ONNX"
            )
    if tflite is not None and quantized is None:
        return _open_alone(tflite, binary, rows, shapes)
    models = _open(binary, quantized, rows, shapes, allow_other, host)
    if tflite is not None and quantized is not None:
        models.tflite = tflite[1], _read_tensor_map(tflite[0], quantized[0])
    return models


def _open_alone(
    tflite: tuple[str, bytes],
    binary: tuple[str, bytes] | None,
    rows: list[dict[str, str]],
    shapes: dict[str, tuple[int, ...]] | None,
) -> Models:
    """Returns the models of -m with a .tflite and no ONNX. A model.bin must be what the .tflite compiles to."""
    if shapes:
        raise UsageError(f"--shape is for a dynamic ONNX; the shapes of {tflite[0]} are fixed")
    compiled, alone = open_tflite(*tflite)
    data, notes = (
        encode(compiled.graph),
        [*compiled.notes, "the .tflite was converted and compiled in LiteRT's arithmetic"],
    )
    if binary is not None:
        data, given = binary[1], _decoded(binary)
        if encode(replace(given, meta={})) != encode(replace(compiled.graph, meta={})):
            raise BadFileError(
                f"{binary[0]}: not what {os.path.basename(tflite[0])} compiles to; leave it out, or give the quantized ONNX"
            )
        compiled.graph = given
    known = tflite[1], alone.converted.tensors
    return Models(compiled.graph, data, compiled, None, rows, notes, tflite=known, alone=alone)


def _decoded(binary: tuple[str, bytes]) -> Graph:
    """Returns the graph of a model.bin. BadFileError with the file's name."""
    try:
        return decode(binary[1])
    except BadFileError as error:
        raise BadFileError(f"{binary[0]}: {error}") from error


def _read_tensor_map(tflite: str, quantized: str) -> dict[str, dict[str, Any]]:
    """Returns the map of tensors beside the quantized ONNX or beside the .tflite. UsageError where there is none."""
    from qverify.sides.litert_board import read_map

    for beside in (quantized, tflite):
        if os.path.isfile(found := f"{beside}.map.json"):
            return read_map(read_model(found), found)
    raise UsageError(
        f"{tflite}: no map of its tensors; wanted {quantized}.map.json (ONNX tensor to its index in the .tflite)"
    )


def _open(
    binary: tuple[str, bytes] | None,
    quantized: tuple[str, bytes] | None,
    rows: list[dict[str, str]],
    shapes: dict[str, tuple[int, ...]] | None,
    allow_other: bool,
    host: bool,
) -> Models:
    """Returns the models of -m without a .tflite."""
    if binary is None and quantized is None:
        raise UsageError("-m names no quantized ONNX and no model.bin: nothing to verify; give one or both")
    graph = None if binary is None else _decoded(binary)
    if quantized is None:
        assert graph is not None and binary is not None
        if shapes:
            raise UsageError("--shape is for a dynamic ONNX; -m names only a model.bin, whose shapes are fixed")
        if graph.islands:
            raise UsageError(
                f"{binary[0]}: {describe_islands(graph.islands)}, by onnxruntime; give the quantized ONNX that it was compiled from, too"
            )
        return Models(graph, binary[1], rows=rows, caveats=_check_compiled(graph, binary[0]))
    compiled, caveats = _compile_again(quantized, graph, shapes, allow_other, host)
    known = compiled.graph if graph is None else graph
    if known.islands:
        if not host:
            raise UsageError(f"{describe_islands(known.islands)}, which --no-host refuses")
        caveats = [describe_islands(known.islands), *caveats]
    if graph is None or binary is None:
        return Models(
            compiled.graph,
            encode(compiled.graph),
            compiled,
            quantized[1],
            rows,
            [*compiled.notes, "no model.bin given: compiled in memory"],
            caveats,
        )
    return Models(graph, binary[1], compiled, quantized[1], rows, compiled.notes, caveats)


def _check_first(before: tuple[str, bytes] | None, path: str, data: bytes, kind: str) -> tuple[str, bytes]:
    """Returns the file as the only one of its kind. UsageError where there was one before."""
    if before is not None:
        raise UsageError(f"-m names two files of kind {kind}: {before[0]} and {path}")
    return path, data


def kind_of(path: str, data: bytes) -> str:
    """Returns float.onnx, quant.onnx, model.bin or tflite, by content. BadFileError for anything else."""
    if data[:8] == MAGIC:
        return "model.bin"
    for start, name in FOREIGN.items():
        if data.startswith(start):
            raise BadFileError(f"{path}: this looks like {name}, not an ONNX or a model.bin of qverify compile")
    if len(data) > 8 and data[4:8] == b"TFL3":
        return "tflite"
    return "quant.onnx" if is_quantized(parse(data, os.path.basename(path))) else "float.onnx"


def _compile_again(
    quantized: tuple[str, bytes],
    graph: Graph | None,
    shapes: dict[str, tuple[int, ...]] | None,
    allow_other: bool,
    host: bool,
) -> tuple[Compiled, list[str]]:
    """Compiles quant.onnx again with the options stored in model.bin, and returns it with the caveats to state. The
    hash of the integer ONNX shows whether the two belong together; BadFileError where they do not."""
    stored = graph.meta.get("options", {}) if graph is not None else {}
    path, data = quantized
    options = CompileOptions.restored(stored, os.path.dirname(os.path.abspath(path)), shapes or {})
    known = isinstance(graph, Graph) and "check" in graph.meta
    options = replace(options, check=not known, host=host if graph is None else options.host)
    compiled = compile_model(data, os.path.basename(path), options)
    _check_compiled(compiled.graph if not known or graph is None else graph, os.path.basename(path))
    if graph is None:
        return compiled, []
    if compiled.graph.meta["integer_sha256"] == graph.meta.get("integer_sha256"):
        if why := contradiction(graph, compiled.graph):
            raise BadFileError(
                f"model.bin differs from what {os.path.basename(path)} compiles to: {why}. Compile it again with qverify compile"
            )
        return compiled, []
    if graph.meta.get("source_sha256") == compiled.graph.meta["source_sha256"]:
        shapes_of = stored.get("shapes") or "those of the file"
        raise BadFileError(
            f"model.bin was compiled from {os.path.basename(path)} with other shapes or by another version of qverify; "
            f"its shapes are {shapes_of}. Compile it again, or give the same --shape"
        )
    message = f"model.bin was compiled from another ONNX ({graph.meta.get('source_name', 'unknown')}) than {os.path.basename(path)}"
    if not allow_other:
        raise BadFileError(f"{message}; compile it again with qverify compile, or give --allow-other-model")
    if graph.islands or compiled.graph.islands:
        raise BadFileError(
            f"{message}, and nodes are computed on the host, which needs the right ONNX; it cannot be verified"
        )
    if lost := [n for n in compiled.graph.outputs if n not in graph.outputs]:
        raise BadFileError(f"{message}, and has no output {lost[0]}, so it cannot be verified")
    return compiled, [message]


def _check_compiled(graph: Graph, name: str) -> list[str]:
    """Returns the caveats about the compiler's check against the original. BadFileError where that check failed."""
    result = graph.meta.get("check")
    if result is None:
        return ["model.bin was never checked against its ONNX (--no-check)"]
    over = result.get("over") if isinstance(result, dict) and result.get("units") else None
    if not isinstance(over, list) or over:
        beyond = (
            f"beyond 1 LSB: {', '.join(map(str, over[:5]))}" if isinstance(over, list) else "no node could be checked"
        )
        raise BadFileError(
            f"{name}: the compiler's check against the original failed ({beyond}), so it cannot be verified"
        )
    return []
