"""Boards that run something else than qvrt: which runner, which model file, and what ties that file to the ONNX."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qverify_agents.inventory import find_runner

from qverify.errors import BadFileError, UsageError
from qverify.files import json_of, read_regular
from qverify.model_bin.container import MAGIC
from qverify.model_bin.records import decode
from qverify.onnx_model.load import read_model
from qverify.plural import count
from qverify.report.document import Report
from qverify.runners import RunnerChoice, choose
from qverify.session.engine_models import open_engine_models
from qverify.session.models import Models, open_models
from qverify.session.request import Request
from qverify.session.runner_options import check_options
from qverify.tensors.recording import Recording

if TYPE_CHECKING:
    from qverify.sides.board import Board
    from qverify.sides.runner_board import RunnerBoard

MANIFEST = ".built.json"  # beside a vendor's model: what it was built from
MOST_TEXT = 1 << 20
KIND = "board model"


@dataclass(frozen=True, slots=True)
class BoardModel:
    """The file that the board runs. tie: what ties it to the quantized ONNX, "" where nothing does."""

    path: str
    data: bytes
    tie: str = ""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def runner_for(board: str | None, given: tuple[tuple[str, str], ...]) -> RunnerChoice | None:
    """Returns the runner of a board: that of the inventory with what was given beside it; None where it runs qvrt.
    UsageError for options that fit no runner, or without a board."""
    if board is None:
        if given:
            raise UsageError("--runner, --runtime and --runner-option say what runs on a board; give -b BOARD")
        return None
    where, listed = find_runner(board)
    keys = {key for key, _ in given}
    if keys & {"runtime", "command"}:  # another runner: the options of the listed one are not for it
        listed = tuple((k, v) for k, v in listed if k not in ("runtime", "command"))
    choice = choose((*listed, *given), "--runner-option" if given else where)
    if choice is not None:
        check_options(choice)
    return choice


def open_with_board_model(request: Request, runner: RunnerChoice | None) -> tuple[Models, BoardModel | None]:
    """Opens the files of -m. With a runner the last one is the board's model, a file of any kind, and the others give
    reference and simulator; a single file is both. UsageError where no quantized ONNX is left."""
    if runner is None:
        if request.reference_engine:
            _refuse_qvrt(request)
            return open_engine_models(request, request.models[0]), None
        return open_models(request.models, request.shapes, request.allow_other_model, request.host), None
    *others, last = request.models
    if request.reference_engine:
        _only_one(others or [last])
        models = open_engine_models(request, (others or [last])[0])
    else:
        models = open_models(others or [last], request.shapes, request.allow_other_model, request.host)
    if models.engine is None and (models.compiled is None or models.original is None):
        raise UsageError(
            f"-m {','.join(request.models)}: with a runner, wanted the quantized ONNX first: quant.onnx,{last}"
        )
    data = read_model(last)
    board = BoardModel(last, data, _tie(last, data, others, models, request.allow_other_model))
    if others:
        row = {"path": os.path.basename(last), "sha256": hashlib.sha256(data).hexdigest(), "kind": KIND}
        models.rows.append(row)
        source = os.path.basename(others[0])
        models.notes.append(f"{board.name} is tied to {source} by {board.tie or 'nothing but the command line'}")
        if not board.tie:
            models.caveats.append(f"nothing ties {board.name} to {source}")
    return models, board


def _only_one(paths: list[str]) -> None:
    if len(paths) > 1:
        raise UsageError(f"-m {paths[1]}: with --reference-engine, -m is one ONNX, and with a runner the board's model")


def _refuse_qvrt(request: Request) -> None:
    """Raises UsageError where the board is to run what only an integer graph gives."""
    _only_one(request.models)
    if request.board is not None:
        raise UsageError(
            "--reference-engine: the model has operators that qvrt and qverify's onnxruntime do not know; say what runs it "
            "on the board: --runner 'COMMAND' with -m quant.onnx,board.model (a dump of it: qverify infer and compare)"
        )


def _tie(path: str, data: bytes, others: list[str], models: Models, allow_other: bool) -> str:
    """Returns what ties the board's model to the ONNX: the hash that a model.bin states, or a manifest beside the file;
    "" for nothing. BadFileError where that names another ONNX, unless allow_other, or another model file."""
    if not others:
        return "being the same file"
    assert models.original is not None
    wanted, source = hashlib.sha256(models.original).hexdigest(), os.path.basename(others[0])
    if data[:8] == MAGIC:
        stated = str(decode(data).meta.get("source_sha256", ""))
        where = "the hash of the ONNX in model.bin"
    elif os.path.lexists(path + MANIFEST):
        content = json_of(read_regular(path + MANIFEST, MOST_TEXT, follow=True), path + MANIFEST)
        content = content if isinstance(content, dict) else {}
        if content.get("model_sha256") != hashlib.sha256(data).hexdigest():
            raise BadFileError(
                f"{path}{MANIFEST}: describes another file than {path}, by its model_sha256; build it again"
            )
        stated, where = str(content.get("source_sha256", "")), f"the hashes in {os.path.basename(path)}{MANIFEST}"
        if isinstance(command := content.get("command"), str):
            where += f", built by {command[:200]!r}"
    else:
        return ""
    if stated == wanted:
        return where
    if not allow_other:
        raise BadFileError(
            f"{path}: {where}: it was built from another ONNX than {source}; build it again, or give --allow-other-model"
        )
    models.caveats.append(f"{os.path.basename(path)} was built from another ONNX than {source}")
    return f"{where}, which is of another ONNX"


def runner_board(request: Request, runner: RunnerChoice | None, vendor: BoardModel, models: Models) -> RunnerBoard:
    """Connects the board. LinkError where it cannot be reached."""
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
    )


def connect_board(
    request: Request, runner: RunnerChoice | None, vendor: BoardModel | None, models: Models
) -> Board | RunnerBoard:
    """Connects the board, whatever runs there. LinkError where it cannot be reached."""
    from qverify.session.open_board import open_board

    assert request.board is not None
    if runner is not None and vendor is not None:
        return runner_board(request, runner, vendor, models)
    return open_board(models, request.board, request.deadline_s, request.reach, request.spot_seed)


def describe_runner(report: Report, board: Recording | None) -> None:
    """Adds to each pair of the board what the verdict must say: how many of the nodes it gave, and values that are known
    to a printed precision only, of which equal text proves no equal bytes."""
    if board is not None and (recovered := board.settings.get("recovered")):
        report.caveats.append(str(recovered))
    if board is None or board.state == "did not run":
        return
    decimals: Any = board.settings.get("precision")
    for pair in (p for p in report.pairs if "board" in (p.a, p.b)):
        offered = pair.coverage.not_offered
        if "per_node" in board.capabilities and offered:
            total = len(offered) + pair.coverage.expected
            pair.relaxed.append(f"the board's runner gave {pair.coverage.expected} of {count(total, 'tensor')}")
        if isinstance(decimals, int):
            pair.bit_equal = False
            for row in pair.tensors:
                row.bit_equal = False
                digits = row.metrics.get("matching_digits")
                row.metrics["matching_digits"] = min(digits, decimals) if isinstance(digits, int) else digits
    if isinstance(decimals, int):
        report.notes.append(f"the board's values are known to {count(decimals, 'decimal')}")
