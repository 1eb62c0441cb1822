"""Runs networks on the real engines: per node, with faults planted in the file that the engine gets, and by hand.

Each engine's packages are pinned and installed once (engine_pythons.py). For every network: the verdict of a run with
every node, how many tensors were paired, how many of them are equal bit for bit, where nodes ran, and how much longer
the run takes than the same driver by hand. Then faults are planted: the weights of one convolution in another order,
one altered bias, the outputs of another input (the file of another run), each at a node drawn by chance; a fault is
found if the run is not PASSED, and located if blame or region names the altered node or what is fused with it."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from scripts.benchmarks.engine_pythons import PACKAGES, NoEngine, engine_python

ROOT = Path(__file__).resolve().parents[2]
QVERIFY = Path(sys.executable).with_name("qverify")
NETWORKS = ("kws_dscnn/kws_dscnn_u8s8_qdq", "resnet8_cifar10/resnet8_cifar10_s8s8_qdq")
TIMEOUT_S = 600.0
ENGINE_OPTIONS = {"onnxruntime_ep": "ep=qnn,backend_type=htp"}  # KEY=VALUE,... of an engine beside its python


@dataclass
class Row:
    """The figures of one network on one engine."""

    engine: str
    network: str
    verdict: str = ""
    tensors: int = 0
    expected: int = 0
    equal: int = 0
    placed: str = ""
    seconds: float = 0.0
    by_hand: float = 0.0
    planted: int = 0
    found: int = 0
    located: int = 0
    lines: list[str] = field(default_factory=list)


def run_engines(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/engines", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"engines, of {', '.join(PACKAGES)}  [default: all]")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models", help="folder of the networks")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="comma list of FOLDER/NAME, without .onnx")
    parser.add_argument("--faults", type=int, default=10, help="faults to plant in each network")
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    if unknown := {*options.names} - {*PACKAGES}:
        parser.error(f"no engine {min(unknown)}; there are: {', '.join(PACKAGES)}")
    rows, failed = list[Row](), False
    for name in options.names or PACKAGES:
        try:
            python = engine_python(name)
        except NoEngine as error:
            print(f"{name}: not run: {error}")
            failed = True
            continue
        for network in options.networks.split(","):
            path = options.models / f"{network}.onnx"
            if not path.is_file():
                print(f"{name}: {path} does not exist; --models names the folder of the networks")
                return 2
            rows.append(measure(name, python, path, options.faults, options.seed))
            print(describe(rows[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if failed or any(row.found < row.planted for row in rows) else 0


def describe(row: Row) -> str:
    """Returns the row as a line of text."""
    return (
        f"{row.engine} {row.network}: {row.verdict}, {row.tensors} of {row.expected} tensors paired, {row.equal} equal; "
        f"{row.placed}; {row.seconds:.1f} s, by hand {row.by_hand:.1f} s; faults: {row.found} of {row.planted} found, "
        f"{row.located} located{''.join(f'{chr(10)}    {line}' for line in row.lines)}"
    )


def measure(name: str, python: Path, path: Path, faults: int, seed: int) -> Row:
    """Returns the figures of one network on one engine."""
    row, chance = Row(name, path.stem), random.Random(f"{seed} {name} {path.stem}")
    engine = ",".join(filter(None, [name, f"python={python}", ENGINE_OPTIONS.get(name, "")]))
    with tempfile.TemporaryDirectory(prefix="qverify-engines-") as folder:
        report = verify([str(path)], engine, Path(folder) / "r.json")
        pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
        side = next(s for s in report["sides"] if s["name"] == "board")
        row.verdict = pair["verdict"] + (f" ({pair['cause']})" if pair.get("cause") else "")
        row.tensors, row.expected = pair["coverage"]["compared"], len(report["units"])
        row.equal = sum(bool(t["bit_equal"]) for t in pair["tensors"])
        row.placed = next((n for n in report["notes"] if " nodes ran on " in n), "no placement")
        row.seconds = side["settings"].get("seconds_of_the_command", 0.0)
        row.by_hand = run_by_hand(name, python, path, Path(folder))
        for number in range(faults):
            altered, nodes = plant(path, chance)
            fault = Path(folder) / f"fault{number}.onnx"
            fault.write_bytes(altered)
            outcome = verify([str(path), str(fault)], engine, Path(folder) / "f.json")
            row.planted += 1
            row.found += outcome["verdict"] != "PASSED"
            row.located += is_located(outcome, nodes)
            if outcome["verdict"] == "PASSED" or not is_located(outcome, nodes):
                row.lines.append(f"{nodes}: {outcome['verdict']}, blame {(outcome.get('blame') or {}).get('node')}")
    return row


def verify(models: list[str], engine: str, report: Path) -> dict[str, Any]:
    """Returns the JSON report of the main job with every node."""
    words = [QVERIFY, "-m", ",".join(models), "-b", "local", "--runtime", engine, "-r", "True", "--json", report]
    report.unlink(missing_ok=True)
    ran = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if not report.exists():
        raise SystemExit(f"{' '.join(map(str, words))}: {ran.stderr.strip()[-500:]}")
    content: dict[str, Any] = json.loads(report.read_text())
    return content


def run_by_hand(name: str, python: Path, path: Path, folder: Path) -> float:
    """Returns the seconds that the engine's driver takes without qverify, with no taps."""
    model = onnx.load(path)
    out = folder / "by-hand"
    out.mkdir()
    inputs = []
    for number, value in enumerate(model.graph.input):
        dims = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        array = np.random.Generator(np.random.PCG64(number)).uniform(-1, 1, dims).astype(np.float32)
        np.save(folder / f"{number}.npy", array)
        inputs.append({"name": value.name, "npy": str(folder / f"{number}.npy")})
    request = folder / "request.json"
    request.write_text(
        json.dumps(
            {
                "model": str(path),
                "inputs": inputs,
                "outputs": [o.name for o in model.graph.output],
                "taps": [],
                "out": str(out),
                "options": {},
                "files": {},
            }
        )
    )
    driver = ROOT / "agents" / "qverify_drivers" / "drive.py"
    start = time.perf_counter()
    subprocess.run([python, driver, name, request], cwd=out, check=True, timeout=TIMEOUT_S, capture_output=True)
    return time.perf_counter() - start


def plant(path: Path, chance: random.Random) -> tuple[bytes, list[str]]:
    """Returns the ONNX with one fault at a convolution or product, and the names of what it computes: its output, and
    the tensors behind it up to the next quantized one."""
    model = onnx.load(path)
    constants = {t.name: t for t in model.graph.initializer}
    makers = {o: n for n in model.graph.node for o in n.output}
    sums = [n for n in model.graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
    node = chance.choice(sums)
    stored = [_source(name, makers, constants) for name in node.input[1:]]
    weights = next(t for t in stored if t is not None)
    bias = stored[1] if len(stored) > 1 else None
    if bias is not None and chance.random() < 0.5:
        values = numpy_helper.to_array(bias).copy()
        place = chance.randrange(values.size)
        values.reshape(-1)[place] += chance.choice((-1, 1)) * max(int(np.abs(values).max()) // 2, 200)
        bias.CopyFrom(numpy_helper.from_array(values, bias.name))
    else:
        values = numpy_helper.to_array(weights)
        weights.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values[::-1]), weights.name))
    return model.SerializeToString(), _behind(node, model)


def _source(name: str, makers: dict[str, Any], constants: dict[str, Any]) -> Any:
    """Returns the constant behind a DequantizeLinear, or of this name."""
    while name in makers and makers[name].op_type == "DequantizeLinear":
        name = makers[name].input[0]
    return constants.get(name)


def _behind(node: Any, model: Any) -> list[str]:
    """Returns the outputs of the node and of the nodes after it, up to and with the next QuantizeLinear."""
    names, todo = [], [*node.output]
    while todo:
        name = todo.pop()
        names.append(name)
        for reader in (n for n in model.graph.node if name in n.input):
            if reader.op_type == "QuantizeLinear":
                names += reader.output
            elif reader.op_type not in ("DequantizeLinear", "Conv", "Gemm", "MatMul"):
                todo += reader.output
    return names


def is_located(report: dict[str, Any], nodes: list[str]) -> bool:
    """Returns whether the board is blamed at the node, or at a region that ends there, and there alone or first."""
    blames = [b for b in report.get("blamed", []) if b["side"] == "board"]
    places = [name for b in blames for name in (b["node"], *((b.get("region") or {}).get("nodes") or []))]
    return any(place in nodes or any(place.startswith(name) for name in nodes) for place in places)


if __name__ == "__main__":
    sys.exit(run_engines(sys.argv[1:]))
