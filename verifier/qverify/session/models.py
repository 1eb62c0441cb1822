"""The -m list to opened files that belong together; told apart by content, never by extension."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace

from qverify.compiler.compile_model import Compiled, CompileOptions, compile_model
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.container import MAGIC
from qverify.model_bin.graph import MAX_DIM, Graph
from qverify.model_bin.records import decode, encode
from qverify.onnx_model.load import is_quantized, parse, read_file
from qverify.session.model_claims import contradiction

FOREIGN = {
    b"\x4b\x4e\x4e\x52": "Rockchip RKNN",
    b"RKNN": "Rockchip RKNN",
    b"\x1c\x00\x00\x00TFL3": "TensorFlow Lite",
    b"PK\x03\x04": "a zip archive",
}


@dataclass(slots=True)
class Models:
    """binary: model.bin bytes (compiled in memory when none was given). integer_onnx, original: None without quant.onnx."""

    graph: Graph
    binary: bytes
    integer_onnx: bytes | None = None
    original: bytes | None = None
    rows: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)  # what a verdict must not be read without


def parse_shapes(values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """NAME=1,3,224,224 options. UsageError for any other form."""
    found: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, _, dims = value.rpartition("=")
        try:
            given = tuple(int(d) for d in dims.split(","))
        except ValueError:
            name, given = "", ()
        if not name or any(not 1 <= d <= MAX_DIM for d in given):
            raise UsageError(f"--shape {value}: wanted NAME=1,3,224,224 with dims of at least 1, at most {MAX_DIM}")
        if found.setdefault(name, given) != given:
            raise UsageError(f"--shape {value}: another --shape gives {name!r} the dims {_dims(found[name])}; give one")
    return found


def _dims(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def open_models(
    paths: list[str], shapes: dict[str, tuple[int, ...]] | None = None, allow_other: bool = False
) -> Models:
    """Raises UsageError or BadFileError: foreign files, two of one kind, a model.bin compiled from another ONNX."""
    binary: tuple[str, bytes] | None = None
    quantized: tuple[str, bytes] | None = None
    rows = []
    for path in paths:
        data = read_file(path)
        kind = kind_of(path, data)
        rows.append({"path": os.path.basename(path), "sha256": hashlib.sha256(data).hexdigest(), "kind": kind})
        if kind == "model.bin":
            binary = _only(binary, path, data, kind)
        elif kind == "quant.onnx":
            quantized = _only(quantized, path, data, kind)
        else:
            raise UsageError(
                f"{path}: a float ONNX (it has no quantized operator), which has no part here: wanted the quantized ONNX, "
                "model.bin or both; `qverify triage` takes a float ONNX"
            )
    if binary is None and quantized is None:
        raise UsageError("-m names no quantized ONNX and no model.bin; there is nothing to verify")
    graph = None
    if binary is not None:
        try:
            graph = decode(binary[1])
        except BadFileError as error:
            raise BadFileError(f"{binary[0]}: {error}") from error
    if quantized is None:
        assert graph is not None and binary is not None
        if shapes:
            raise UsageError("--shape is for a dynamic ONNX; -m names only a model.bin, whose shapes are fixed")
        return Models(graph, binary[1], rows=rows, caveats=_checked(graph, binary[0]))
    compiled, caveats = _integer_form(quantized, graph, shapes, allow_other)
    if graph is None or binary is None:
        return Models(
            compiled.graph,
            encode(compiled.graph),
            compiled.integer_onnx,
            quantized[1],
            rows,
            ["no model.bin given: compiled in memory"],
        )
    return Models(graph, binary[1], compiled.integer_onnx, quantized[1], rows, caveats=caveats)


def _only(before: tuple[str, bytes] | None, path: str, data: bytes, kind: str) -> tuple[str, bytes]:
    if before is not None:
        raise UsageError(f"-m names two files of kind {kind}: {before[0]} and {path}")
    return path, data


def kind_of(path: str, data: bytes) -> str:
    """float.onnx, quant.onnx or model.bin, by content. BadFileError for anything else."""
    if data[:8] == MAGIC:
        return "model.bin"
    for start, name in FOREIGN.items():
        if data.startswith(start):
            raise BadFileError(f"{path}: this looks like {name}, not an ONNX or a model.bin of qverify compile")
    if len(data) > 8 and data[4:8] == b"TFL3":
        raise BadFileError(f"{path}: this looks like TensorFlow Lite, not an ONNX or a model.bin of qverify compile")
    return "quant.onnx" if is_quantized(parse(data, os.path.basename(path))) else "float.onnx"


def _integer_form(
    quantized: tuple[str, bytes], graph: Graph | None, shapes: dict[str, tuple[int, ...]] | None, allow_other: bool
) -> tuple[Compiled, list[str]]:
    """The integer ONNX again from quant.onnx, with the options stored in model.bin; its hash tells whether they belong together."""
    stored = graph.meta.get("options", {}) if graph is not None else {}
    path, data = quantized
    options = CompileOptions.restored(stored, os.path.dirname(os.path.abspath(path)), shapes or {})
    known = isinstance(graph, Graph) and "check" in graph.meta
    compiled = compile_model(data, os.path.basename(path), replace(options, check=not known))
    _checked(compiled.graph if not known or graph is None else graph, os.path.basename(path))
    if graph is None:
        return compiled, []
    if compiled.graph.meta["integer_sha256"] == graph.meta.get("integer_sha256"):
        if why := contradiction(graph, compiled.graph):
            raise BadFileError(
                f"model.bin is not what {os.path.basename(path)} compiles to: {why}. Compile it again with qverify compile"
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
    if lost := [n for n in compiled.graph.outputs if n not in graph.outputs]:
        raise BadFileError(f"{message}, and has no output {lost[0]}; nothing can be verified with it")
    return compiled, [message]


def _checked(graph: Graph, name: str) -> list[str]:
    """What is to be said of the compiler's check against the original; BadFileError where it had failed."""
    result = graph.meta.get("check")
    if result is None:
        return ["model.bin was never checked against its ONNX (--no-check)"]
    over = result.get("over") if isinstance(result, dict) and result.get("units") else None
    if not isinstance(over, list) or over:
        beyond = (
            f"beyond 1 LSB: {', '.join(map(str, over[:5]))}" if isinstance(over, list) else "no unit could be checked"
        )
        raise BadFileError(
            f"{name}: the compiler's check against the original failed ({beyond}); nothing can be verified with it"
        )
    return []
