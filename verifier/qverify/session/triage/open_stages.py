"""Determines the stages of the ladder from -m and --stages: float files, a vendor's stage, the quantized ONNX,
model.bin and dumps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from qverify.errors import UsageError
from qverify.onnx_model.load import read_model
from qverify.report.triage_document import Stage
from qverify.session.model_file import kind_of
from qverify.session.request import is_dump

ALONE = ("tflite", "espdl")  # kinds of files that are the whole model, without an ONNX
STAGE_WORDS = ("simulator", "board")  # words in --stages that are not paths


@dataclass(frozen=True, slots=True)
class SourceStage:
    """A stage before the quantized reference. path: of the ONNX or the dump. data: the bytes of the ONNX, b"" for a
    dump."""

    stage: Stage
    path: str
    data: bytes = b""


@dataclass(slots=True)
class StageFiles:
    """The files of the stages. originals: stages before the reference, in order. models: paths that the main job opens.
    dumps: paths of another runtime's dumps, which come after the reference. run_sim: whether the simulator is a
    stage."""

    originals: list[SourceStage] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    dumps: list[str] = field(default_factory=list)
    run_sim: bool = True


def stage_files(
    models: list[str], stages: list[str], run_sim: bool, board: str | None, engine: bool = False
) -> StageFiles:
    """Assigns the files to stages. models: paths of -m. stages: paths and STAGE_WORDS in order; [] for the default
    order of -m. engine: a reference engine runs the last ONNX, quantized or not. Raises UsageError for a stage in a
    place where it cannot be."""
    paths = [s for s in stages if s not in STAGE_WORDS] + [m for m in models if m not in stages]
    if stages and "board" in stages and board is None:
        raise UsageError("--stages names the board, but there is no -b BOARD")
    if stages and board is not None and "board" not in stages:
        raise UsageError("-b is given, but --stages does not name the board; add `board` at its end")
    files = StageFiles(run_sim=("simulator" in stages) if stages else run_sim)
    kinds = {path: _kind(path) for path in paths}
    reference_kinds = ("quant.onnx", "float.onnx") if engine else ("quant.onnx",)
    if engine:
        _check_for_engine(kinds, files.run_sim and "simulator" in stages)
        files.run_sim = False
    quantized = [p for p in paths if kinds[p] in reference_kinds] or [p for p in paths if kinds[p] in ALONE]
    reference, after_reference = quantized[-1] if quantized else None, False
    for path in paths:
        kind = kinds[path]
        if path == reference or kind in ("model.bin", *ALONE):
            files.models.append(path)
            after_reference = after_reference or path == reference
        elif kind == "dump" and (after_reference or not stages):
            files.dumps.append(path)
        elif after_reference and stages:
            raise UsageError(f"--stages: {path} ({kind}) comes after the quantized ONNX {reference}; put it before")
        else:
            files.originals.append(_open_original(path, kind, files.originals))
    if len(files.dumps) > 1:
        raise UsageError(f"--stages: {len(files.dumps)} dumps after the quantized ONNX; give one")
    return files


def _check_for_engine(kinds: dict[str, str], simulator: bool) -> None:
    """Raises UsageError for stages that cannot be used with a reference engine. simulator: --stages names it."""
    if simulator:
        raise UsageError("--stages names the simulator, which needs an integer graph; --reference-engine gives none")
    if other := next((p for p, kind in kinds.items() if kind in ("model.bin", "tflite")), None):
        raise UsageError(
            f"{other}: --reference-engine runs an ONNX; on the board a runner runs it (--runner 'COMMAND', its model last in -m)"
        )


def split_board_model(models: list[str], has_runner: bool) -> tuple[list[str], list[str]]:
    """Returns the files of -m without the board's own model, and that model in a list. It is the last file, of any
    kind, if the board has a runner; otherwise the list is empty."""
    has_board_model = len(models) > 1 and has_runner
    return (models[:-1], models[-1:]) if has_board_model else (models, [])


def _kind(path: str) -> str:
    """Returns the kind of a file of a stage: `dump`, or that of kind_of()."""
    if is_dump(path):
        return "dump"
    return kind_of(path, read_model(path)[: 1 << 31])


def _open_original(path: str, kind: str, before: list[SourceStage]) -> SourceStage:
    """Returns a stage before the reference. Its name is numbered if earlier stages (`before`) are of the same kind."""
    stage_kind = {"float.onnx": "float", "quant.onnx": "fake-quantized"}.get(kind, "float")
    earlier = sum(o.stage.kind == stage_kind for o in before)
    name = stage_kind + (str(earlier + 1) if earlier else "")
    data = b"" if kind == "dump" else read_model(path)
    return SourceStage(Stage(name, stage_kind, os.path.basename(os.path.normpath(path))), path, data)


def list_stages(
    files: StageFiles,
    names: dict[str, str],
    board: str | None,
    application: str | None,
    engines: Sequence[str] = (),
    reference: bool = True,
) -> list[Stage]:
    """Returns the stages of the ladder in order. names: file names of the opened models, by kind. board: its address.
    application: path of the application's outputs. engines: further sides on this host. reference: whether it runs."""
    stages = [o.stage for o in files.originals]
    file = names.get("quant.onnx", names.get("tflite"))
    if file and reference:
        stages.append(Stage("reference", "reference", file))
    stages += [Stage("dump", "dump", os.path.basename(os.path.normpath(p))) for p in files.dumps]
    if names and files.run_sim:
        stages.append(Stage("simulator", "simulator", names.get("model.bin", "compiled in memory")))
    stages += [Stage(engine, "engine", file or "") for engine in engines]
    if board is not None:
        stages.append(Stage("board", "board", board))
    if application is not None:
        stages.append(Stage("application", "application", os.path.basename(os.path.normpath(application))))
    paths = [*(o.path for o in files.originals), *files.models, *files.dumps, *([application] if application else [])]
    _tell_apart(stages, paths)
    return stages


def _tell_apart(stages: list[Stage], paths: list[str]) -> None:
    """Adds the folder to the sources of stages that have the same file name."""
    for source in {s.source for s in stages}:
        same = [s for s in stages if s.source == source]
        full = [p for p in dict.fromkeys(paths) if os.path.basename(os.path.normpath(p)) == source]
        if len(same) > 1 and len(full) == len(same):
            for stage, path in zip(same, full, strict=True):
                stage.source = path
