"""Boards that run something other than qvrt: opens the board's model file, and establishes whether that file was built from
the ONNX."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qverify.compare.options import Options
from qverify.engines import COMMAND, ChosenSide, RunnerChoice, option
from qverify.errors import BadFileError, UsageError
from qverify.files import parse_json, read_regular
from qverify.model_bin.container import MAGIC
from qverify.model_bin.records import decode
from qverify.onnx_model.load import read_model
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.session.chosen_sides import LITERT, QUANTIZATION, ChosenSides
from qverify.session.models import Models, open_models, read_tensor_map
from qverify.session.request import Request
from qverify.tensors.recording import NO_VALUES, Recording

if TYPE_CHECKING:
    from qverify.sides.board import Board
    from qverify.sides.engine_process import EngineChoice
    from qverify.sides.runner_board import RunnerBoard

MANIFEST_SUFFIX = ".built.json"  # added to the name of a vendor's model: the file that states what it was built from
MAX_MANIFEST_BYTES = 1 << 20
NO_INTEGER_GRAPH = "gives no integer graph: no simulator, and no node is recomputed"
BOARD_MODEL_KIND = "board model"  # of the board's own model file, in the report


@dataclass(frozen=True, slots=True)
class BoardModel:
    """The model file that the board runs. tie: what shows that it was built from the quantized ONNX, "" if nothing
    does. built_for: versions that the board must have for it, by name in the board's ledger, as its manifest states
    them. tensors: for a .tflite, where the graph's tensors lie in it."""

    path: str
    data: bytes
    tie: str = ""
    built_for: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)


def open_with_board_model(
    request: Request, sides: ChosenSides, simulates: bool = True
) -> tuple[Models, BoardModel | None]:
    """Opens the files of -m. With a runner, the last one is the board's model, a file of any kind, and the others are
    for reference and simulator; a single file is used for both. simulates: False if the simulator is not
    wanted, so that a .tflite need not be converted. Raises UsageError if there is no quantized ONNX among the latter."""
    *others, last = request.models
    paths = others or [last] if sides.runner is not None else request.models
    if sides.reference_engine is not None:
        if len(paths) > 1:
            raise UsageError(
                f"-m {paths[1]}: with --reference-engine, -m is one ONNX, and with a runner the board's model"
            )
        models = _open_engine_models(sides.reference_engine, paths[0], request.shapes)
    else:
        how = request.shapes, request.allow_other_model, request.host, sides.arithmetic, request.quantization
        runs_tflite = sides.board is not None and (sides.runner is not None or sides.board.engine == LITERT)
        models = open_models(
            paths,
            *how,
            operators=runs_tflite or not simulates,
            signature=request.signature,
            steps=request.sequence is not None,
        )
    if sides.runner is None:
        return models, None
    if models.engine is None and models.alone is None and (models.compiled is None or models.source is None):
        raise UsageError(
            f"-m {','.join(request.models)}: with a runner, wanted the quantized ONNX first: quant.onnx,{last}"
        )
    data = read_model(last)
    if request.signature and models.alone is not None:
        data = models.alone.data  # in which that signature is the first
    _check_own_files(sides.runner, last, data, models)
    tie = _find_tie(last, data, others, models, request.allow_other_model)
    board = BoardModel(last, data, tie, _read_built_for(last), _find_tensors(last, data, others, models))
    if others:
        row = {"path": os.path.basename(last), "sha256": hashlib.sha256(data).hexdigest(), "kind": BOARD_MODEL_KIND}
        models.rows.append(row)
        source = os.path.basename(others[0])
        models.notes.append(f"{board.name} is tied to {source} by {board.tie or 'nothing but the command line'}")
        if not board.tie:
            models.caveats.append(f"nothing ties {board.name} to {source}")
    return models, board


def _check_own_files(runner: RunnerChoice, path: str, data: bytes, models: Models) -> None:
    """Raises UsageError if an engine would run the toolkit's files beside --quantization, and not the board's model."""
    text = option(runner.options, QUANTIZATION)
    if text and models.float_onnx is not None and data != models.float_onnx:
        raise UsageError(
            f"-m {path}: {runner.name} runs the files beside {text}, not this one; leave it out, or give what the toolkit "
            f"made of it: -m {path} --quantization FILE"
        )


def _open_engine_models(choice: EngineChoice, path: str, shapes: dict[str, tuple[int, ...]]) -> Models:
    """Returns the models of an ONNX that a reference engine runs: a graph that only names the tensors, and the engine as the
    reference. shapes: of dynamic inputs. Raises BadFileError if the file cannot be read."""
    from qverify.onnx_model.opaque_model import read_opaque
    from qverify.sides.engine_reference import EngineReference

    model = read_opaque(path, shapes)
    reference = EngineReference(choice, model)
    row = {"path": os.path.basename(path), "sha256": hashlib.sha256(model.data).hexdigest(), "kind": "quant.onnx"}
    caveats = [f"the reference is {choice.shown}, which {NO_INTEGER_GRAPH}"]
    observable = len(reference.graph.observable())
    total = sum(len(node.outputs) for node in model.nodes)
    notes = [f"the reference engine gives {observable} of {total} tensors of nodes, by value only"]
    return Models(reference.graph, b"", None, model.data, [row], notes, caveats, engine=reference)


def _find_tensors(path: str, data: bytes, others: list[str], models: Models) -> dict[str, dict[str, Any]]:
    """Returns where each tensor of the graph lies in the board's .tflite; {} for another file. Raises UsageError if no map
    of its tensors lies beside the files, BadFileError for one that does not fit."""
    if data[4:8] != b"TFL3" or models.engine is not None:
        return {}
    from qverify.sides.tflite_tensors import tensors_by_name

    alone = models.alone
    if alone is not None and data not in (alone.given, alone.data):
        raise UsageError(
            f"-m {','.join([*others, path])}: two files of a .tflite; give one, or the quantized ONNX and one"
        )
    tensors = read_tensor_map(path, others[0]) if alone is None else alone.converted.tensors
    return tensors_by_name(data, tensors, models.graph)


def _find_tie(path: str, data: bytes, others: list[str], models: Models, allow_other: bool) -> str:
    """Returns what shows that the board's model was built from the ONNX: the hash stored in a model.bin, or a manifest
    beside the file; "" if there is neither. Raises BadFileError if these name another ONNX (unless allow_other) or
    another model file."""
    if not others:
        return "being the same file"
    original = models.original if models.alone is None else models.alone.given
    assert original is not None
    sha256, source = hashlib.sha256(original).hexdigest(), os.path.basename(others[0])
    if data == original:
        return "being the same bytes"
    if data[:8] == MAGIC:
        stated = str(decode(data).meta.get("source_sha256", ""))
        where = "the hash of the ONNX in model.bin"
    elif os.path.lexists(path + MANIFEST_SUFFIX):
        content = _read_manifest(path)
        if content.get("model_sha256") != hashlib.sha256(data).hexdigest():
            raise BadFileError(
                f"{path}{MANIFEST_SUFFIX}: describes another file than {path}, by its model_sha256; build it again"
            )
        stated, where = (
            str(content.get("source_sha256", "")),
            f"the hashes in {os.path.basename(path)}{MANIFEST_SUFFIX}",
        )
        if isinstance(command := content.get("command"), str):
            where += f", built by {command[:200]!r}"
    else:
        return ""
    if stated == sha256:
        return where
    if not allow_other:
        raise BadFileError(
            f"{path}: {where}: it was built from another ONNX than {source}; build it again, or give --allow-other-model"
        )
    models.caveats.append(f"{os.path.basename(path)} was built from another ONNX than {source}")
    return f"{where}, which is of another ONNX"


def _read_manifest(path: str) -> dict[str, Any]:
    """Returns the content of the manifest beside a board's model; {} if there is none."""
    if not os.path.lexists(path + MANIFEST_SUFFIX):
        return {}
    content = parse_json(read_regular(path + MANIFEST_SUFFIX, MAX_MANIFEST_BYTES, follow=True), path + MANIFEST_SUFFIX)
    return content if isinstance(content, dict) else {}


def _read_built_for(path: str) -> dict[str, str]:
    stated = _read_manifest(path).get("built_for")
    return {str(k): str(v) for k, v in stated.items()} if isinstance(stated, dict) else {}


def describe_other_versions(built_for: Mapping[str, str], ledger: Mapping[str, str]) -> list[str]:
    """Returns a line for each version that a model was built for and that the board does not have."""
    return [
        f"the model was built for {name} {printable(wanted)}, the board has {ledger.get(name, 'not said which one')}"
        for name, wanted in built_for.items()
        if ledger.get(name) != wanted
    ]


def runner_board(request: Request, side: ChosenSide, vendor: BoardModel, models: Models) -> RunnerBoard:
    """Connects a board that has a runner. Raises LinkError if it cannot be reached."""
    from qverify.sides.runner_board import RunnerBoard
    from qverify.sides.tflite_files import files_of

    model, sha256 = (vendor.name, vendor.data), hashlib.sha256(models.binary).hexdigest()
    alone, files = models.alone, None
    if alone is not None and side.engine == COMMAND:
        files = files_of(alone.data, alone.converted.model, alone.converted.tensors)
    return RunnerBoard(side, model, models.graph, request.deadline_s, sha256, models.onnx_names, vendor.tensors, files)


def connect_board(request: Request, side: ChosenSide, vendor: BoardModel | None, models: Models) -> Board | RunnerBoard:
    """Connects the board, with or without a runner. Raises LinkError if it cannot be reached."""
    from qverify.session.open_board import open_board

    if vendor is not None:
        return runner_board(request, side, vendor, models)
    return open_board(models, side, request.deadline_s, request.spot_seed)


def describe_runner(
    report: ReportDocument,
    board: Recording | None,
    options: Options,
    built_for: Mapping[str, str] | None = None,
    arithmetics: tuple[str, ...] = (),
) -> None:
    """Adds to each pair with the board what the verdict must state: the number of tensors that the runner gave, and
    that printed values are known to some decimals only, so that equal text does not prove equal bytes, and nothing
    finer is judged. built_for: as in BoardModel. arithmetics: shipped ones of the board's engine, if none is stated; they
    are named where the board rounds otherwise."""
    from qverify.session.printed_values import limit_to_decimals, refuse_finer

    if board is not None and board.state not in NO_VALUES:
        report.caveats += describe_other_versions(built_for or {}, board.ledger)
    if board is not None and (recovered := board.settings.get("recovered")):
        report.caveats.append(str(recovered))
    if board is None or board.state in NO_VALUES:
        return
    if arithmetics and any(p.verdict == "FAILED" and "board" in (p.a, p.b) for p in report.pairs):
        report.notes.append(
            f"how this engine rounds is shipped: --arithmetic {' or '.join(arithmetics)} holds it to every bit of its own"
        )
    decimals: Any = board.settings.get("precision")
    for pair in (p for p in report.pairs if "board" in (p.a, p.b)):
        offered = pair.coverage.not_offered
        if "per_node" in board.capabilities and offered:
            total = len(offered) + pair.coverage.expected
            pair.relaxed.append(f"the board's runner gave {pair.coverage.expected} of {count(total, 'tensor')}")
        if isinstance(decimals, int):
            limit_to_decimals(pair, decimals)
            refuse_finer(pair, decimals, options)
    if isinstance(decimals, int):
        report.notes.append(f"the board's values are known to {count(decimals, 'decimal')}")
        report.verdict = worst([pair.verdict for pair in report.pairs])
