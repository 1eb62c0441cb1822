"""Times the steps of a first-time user: from a float ONNX and photos to a verdict, and to a planted fault that is found
and explained."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT.parent / "shared" / "models"
PHOTOS = ("bird", "cat", "dragonfly", "face", "grace_hopper", "hot_dog", "owl", "parrot", "sunflower", "pets", "squat")
CASE = "parrot.jpg"
WALKS = {  # network to what its user knows: input size, preprocessing, and a misspelt node name
    "mbv1_025_224": ('size="224x224"\ntrain="rgb"\nfit="stretch"\nmean=127.5\nstd=127.5\n', "input", "conv_pw_5"),
    "yunet_n_320": ('size="320x320"\ntrain="bgr"\nfit="letterbox"\nmean=0\nstd=1\n', "input", "Conv_23"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One command and its result.

    wanted: the expected exit status. said: the output on both streams.
    """

    name: str
    words: str
    wanted: int
    status: int
    seconds: float
    said: str


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench walk", description=__doc__)
    parser.add_argument("--network", choices=[*WALKS], action="append")
    parser.add_argument("--json", metavar="F")
    options = parser.parse_args(argv)
    if not MODELS.is_dir():
        print("the real models (../shared/models) are not beside the project")
        return 2
    rows, wrong = [], 0
    for network in options.network or WALKS:
        steps = walk(network)
        for step in steps:
            print(f"{network:14s} {step.seconds:6.1f} s  status {step.status}  {step.name}")
            wrong += step.status != step.wanted
        print(f"{network:14s} {sum(s.seconds for s in steps):6.1f} s  in all, {len(steps)} commands")
        rows += [{"network": network} | asdict(step) for step in steps]
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(wrong > 0)


def walk(network: str) -> list[Step]:
    """Runs and returns the steps of one network, in a folder with its float ONNX and the photos."""
    description, name, misspelt_node = WALKS[network]
    with tempfile.TemporaryDirectory(prefix="qverify-walk-") as temporary:
        folder = Path(temporary)
        (folder / "photos").mkdir()
        for photo in PHOTOS:
            shutil.copy(MODELS / "inputs" / "images" / f"{photo}.jpg", folder / "photos")
        shutil.copy(MODELS / network / f"{network}.onnx", folder / "float.onnx")
        steps = [
            _run(folder, "quantize, which asks for a description", "quantize float.onnx -i photos -o quant.onnx", 2)
        ]
        (folder / "inputs.toml").write_text(f'[inputs.{name}]\nformat="featuremap"\n{description}')
        description_option, case = "--description inputs.toml", f"-i photos/{CASE} --description inputs.toml"
        models = "-m quant.onnx,model.bin"
        steps += [
            _run(folder, "quantize", f"quantize float.onnx -i photos {description_option} -o quant.onnx", 0),
            _run(folder, "compile", "compile quant.onnx -o model.bin", 0),
            _run(folder, "verdict on local", f"{models} -b local -r True {case}", 0),
            _run(
                folder,
                "verdict on aarch64, all photos",
                f"{models} -b qemu-user:aarch64 -r True -i photos {description_option}",
                0,
            ),
            _run(
                folder,
                "a fault, its node misspelt",
                f"{models} -b faulty:local?fault=round_floor@{misspelt_node} {case}",
                2,
            ),
        ]
        suggestion = re.search(r"did you mean (\S+?)(\?| or )", steps[-1].said)
        board = f"-b faulty:local?fault=round_floor@{suggestion[1] if suggestion else misspelt_node}"
        steps += [
            _run(folder, "the fault found", f"{models} {board} -r True {case}", 1),
            _run(folder, "the fault explained", f"triage -m float.onnx,quant.onnx,model.bin {board} {case}", 1),
        ]
        return steps


def _run(folder: Path, name: str, words: str, wanted: int) -> Step:
    """Runs one qverify command in the folder. wanted: its expected exit status."""
    path = os.pathsep.join(str(ROOT / room) for room in ("verifier", "agents", ""))
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "qverify", *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Step(name, words, wanted, done.returncode, time.perf_counter() - begun, done.stdout)
