"""Packs and unpacks the corpus, and makes it: a small model for each op, and captures of right and wrong boards.

models/NAME.onnx are reference cases of tests/ops/cases, captures/NAME are runs of the main job with --capture. They are made
once, with one version of onnxruntime, and kept, so that what is made of them depends on this program alone."""

from __future__ import annotations

import io
import shutil
import tarfile
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import onnx
import qverify
from qverify.errors import QVerifyError

FOLDER = Path(__file__).resolve().parent
CORPUS = FOLDER / "corpus.tar.xz"
FAULTS = (  # of boards, one for each run in turn
    *(
        "bitflip",
        "round_floor",
        "zero_tail",
        "off_by_one",
        "channel_swap",
        "byte_order",
        "round_half_away",
        "bias_missing",
    ),
    *(
        "row_repeated",
        "clamp_missing",
        "sign_input",
        "stale_tensor",
        "nan",
        "scales_per_tensor",
        "tile_dropped",
        "pad_value",
    ),
    *(
        "round_tflite_single",
        "acc_wrap16",
        "gamma",
        "weight_half_lost",
        "checkerboard",
        "layout_output",
        "dither",
        "plus_one",
    ),
)
CAPTURES = 40


def pack(folder: Path, archive: Path) -> None:
    """Writes every file of the folder to the archive, in the order of their names, without dates and owners."""
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            content = path.read_bytes()
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))


def unpack(archive: Path, folder: Path) -> None:
    """Writes the files of the archive below the folder."""
    with tarfile.open(archive, "r:xz") as packed:
        packed.extractall(folder, filter="data")


def make(folder: Path) -> None:
    """Writes models/ and captures/ anew."""
    from tests.ops.case_files import ACTIVATIONS, CASES
    from tests.ops.qdq import Qdq

    models = folder / "models"
    models.mkdir(parents=True)
    for number, stem in enumerate(sorted({stem for _, stem, _ in CASES.values()})):
        build = next(build for build, of, _ in CASES.values() if of == stem)
        case = Qdq(*ACTIVATIONS[("u8", "s8", "s8sym")[number % 3]], seed=number)
        build(case)
        onnx.save(case.model(), models / f"{stem}.onnx")
    made = 0
    for model, kind in zip([*sorted(models.glob("*.onnx"))] * 3, cycle(FAULTS), strict=False):
        if made < CAPTURES:
            with suppress(QVerifyError):
                made += _capture(model, folder / "captures" / f"{made:02}_{model.stem}", made % 5 == 4, kind)


def _capture(model: Path, target: Path, right: bool, kind: str) -> bool:
    """Captures a run on a right board, or on one with a fault of this kind at the network's last node. Returns whether the run shows
    what it should; otherwise nothing is kept."""
    board = "local" if right else f"faulty:local?fault={kind}@{_last_node(model)}"
    report = qverify.verify(model, board=board, capture=str(target))
    if report.verdict == ("PASSED" if right else "FAILED"):
        return True
    shutil.rmtree(target)
    return False


def _last_node(model: Path) -> str:
    """Returns the last node that the board computes, but a conversion to floats."""
    units = qverify.verify(model, board="local").to_json()["units"]
    return str([u["node"] for u in units if u["op"] != "dequantize"][-1])
