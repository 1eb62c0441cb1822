"""Boards that run something other than qvrt: chooses the runner, opens the board's model file, and establishes whether
that file was built from the ONNX."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qverify_agents.inventory import find_runner

from qverify.compare.options import Options
from qverify.engines import RunnerChoice, choose
from qverify.errors import BadFileError, UsageError
from qverify.files import parse_json, read_regular
from qverify.model_bin.container import MAGIC
from qverify.model_bin.records import decode
from qverify.onnx_model.load import read_model
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.session.engine_models import open_engine_models
from qverify.session.models import Models, open_models
from qverify.session.printed_values import limit_to_decimals, refuse_finer
from qverify.session.request import Request
from qverify.session.runner_options import check_options
from qverify.session.stated_arithmetics import arithmetic_for
from qverify.tensors.recording import NO_VALUES, Recording

if TYPE_CHECKING:
    from qverify.sides.board import Board
    from qverify.sides.runner_board import RunnerBoard

MANIFEST_SUFFIX = ".built.json"  # added to the name of a vendor's model: the file that states what it was built from
MAX_MANIFEST_BYTES = 1 << 20
BOARD_MODEL_KIND = "board model"  # of the board's own model file, in the report


@dataclass(frozen=True, slots=True)
class BoardModel:
    """The model file that the board runs. tie: what shows that it was built from the quantized ONNX, "" if nothing
    does. built_for: versions that the board must have for it, by name in the board's ledger, as its manifest states
    them."""

    path: str
    data: bytes
    tie: str = ""
    built_for: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)


def runner_for(board: str | None, options: tuple[tuple[str, str], ...]) -> RunnerChoice | None:
    """Returns the runner of a board: that of the inventory, with the options given separately; None if the board runs
    qvrt. Raises UsageError for options that no runner has, and for options without a board."""
    if board is None:
        if options:
            raise UsageError("--runner, --runtime and --runner-option say what runs on a board; give -b BOARD")
        return None
    where, listed = find_runner(board)
    keys = {key for key, _ in options}
    if keys & {"runtime", "command"}:  # this may be another runner than the one listed for the board
        listed = tuple((k, v) for k, v in listed if k not in ("runtime", "command"))
    choice = choose((*listed, *options), "--runner-option" if options else where)
    if choice is not None:
        check_options(choice)
    return choice


def open_with_board_model(request: Request, runner: RunnerChoice | None) -> tuple[Models, BoardModel | None]:
    """Opens the files of -m. With a runner, the last one is the board's model, a file of any kind, and the others are
    for reference and simulator; a single file is used for both. Raises UsageError if there is no quantized ONNX among
    the latter."""
    arithmetic = None if request.arithmetic is None else arithmetic_for(request.board, request.arithmetic)
    how = request.shapes, request.allow_other_model, request.host, arithmetic
    if request.reference_engine and arithmetic is not None:
        raise UsageError("--arithmetic needs the integer graph, which --reference-engine does not give")
    if runner is None:
        if request.reference_engine:
            _refuse_board_without_runner(request)
            return open_engine_models(request, request.models[0]), None
        return open_models(request.models, *how), None
    *others, last = request.models
    if request.reference_engine:
        _require_single(others or [last])
        models = open_engine_models(request, (others or [last])[0])
    else:
        models = open_models(others or [last], *how)
    if models.engine is None and (models.compiled is None or models.original is None):
        raise UsageError(
            f"-m {','.join(request.models)}: with a runner, wanted the quantized ONNX first: quant.onnx,{last}"
        )
    data = read_model(last)
    tie = _find_tie(last, data, others, models, request.allow_other_model)
    board = BoardModel(last, data, tie, _read_built_for(last))
    if others:
        row = {"path": os.path.basename(last), "sha256": hashlib.sha256(data).hexdigest(), "kind": BOARD_MODEL_KIND}
        models.rows.append(row)
        source = os.path.basename(others[0])
        models.notes.append(f"{board.name} is tied to {source} by {board.tie or 'nothing but the command line'}")
        if not board.tie:
            models.caveats.append(f"nothing ties {board.name} to {source}")
    return models, board


def _require_single(paths: list[str]) -> None:
    if len(paths) > 1:
        raise UsageError(f"-m {paths[1]}: with --reference-engine, -m is one ONNX, and with a runner the board's model")


def _refuse_board_without_runner(request: Request) -> None:
    """Raises UsageError for a board without a runner, which would need a model.bin, and for several models."""
    _require_single(request.models)
    if request.board is not None:
        raise UsageError(
            "--reference-engine: the model has operators that qvrt and qverify's onnxruntime do not know; say what runs it "
            "on the board: --runner 'COMMAND' with -m quant.onnx,board.model (a dump of it: qverify infer and compare)"
        )


def _find_tie(path: str, data: bytes, others: list[str], models: Models, allow_other: bool) -> str:
    """Returns what shows that the board's model was built from the ONNX: the hash stored in a model.bin, or a manifest
    beside the file; "" if there is neither. Raises BadFileError if these name another ONNX (unless allow_other) or
    another model file."""
    if not others:
        return "being the same file"
    assert models.original is not None
    sha256, source = hashlib.sha256(models.original).hexdigest(), os.path.basename(others[0])
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


def runner_board(request: Request, runner: RunnerChoice | None, vendor: BoardModel, models: Models) -> RunnerBoard:
    """Connects a board that has a runner. Raises LinkError if it cannot be reached."""
    from qverify.sides.runner_board import RunnerBoard

    assert runner is not None and request.board is not None
    return RunnerBoard(
        request.board,
        runner,
        (vendor.name, vendor.data),
        models.graph,
        request.deadline_s,
        request.reach,
        hashlib.sha256(models.binary).hexdigest(),
        models.onnx_names,
    )


def connect_board(
    request: Request, runner: RunnerChoice | None, vendor: BoardModel | None, models: Models
) -> Board | RunnerBoard:
    """Connects the board, with or without a runner. Raises LinkError if it cannot be reached."""
    from qverify.session.open_board import open_board

    assert request.board is not None
    if runner is not None and vendor is not None:
        return runner_board(request, runner, vendor, models)
    return open_board(models, request.board, request.deadline_s, request.reach, request.spot_seed)


def describe_runner(
    report: ReportDocument, board: Recording | None, options: Options, built_for: Mapping[str, str] | None = None
) -> None:
    """Adds to each pair with the board what the verdict must state: the number of tensors that the runner gave, and
    that printed values are known to some decimals only, so that equal text does not prove equal bytes, and nothing
    finer is judged. built_for: as in BoardModel."""
    if board is not None and board.state not in NO_VALUES:
        report.caveats += describe_other_versions(built_for or {}, board.ledger)
    if board is not None and (recovered := board.settings.get("recovered")):
        report.caveats.append(str(recovered))
    if board is None or board.state in NO_VALUES:
        return
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
