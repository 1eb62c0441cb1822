"""Runs networks on the real engines: per node, with faults planted in the file that the engine gets, and by hand.

Each engine's packages are pinned and installed once (engine_pythons.py). For every network: the verdict of a run with
every node, how many tensors were paired, how many of them are equal bit for bit, where nodes ran, and how much longer
the run takes than the same driver by hand. Then faults of many kinds are planted by chance (engine_faults.py): in the
model that the engine gets (a weight, a channel, a bias, a zero point, pads, the weights of another layer or training),
in what it is given (BGR, another frame, another order) and in what it gives back (exchanged tensors, an element, a
channel). Those that change no tensor are drawn again. A fault is found if the run is not PASSED, and located if the
first that is blamed is the altered node or what is fused with it, or a line of the report names the mistake."""

from __future__ import annotations

import argparse
import contextlib
import io
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
from qverify.cli.main import main

from scripts.benchmarks.engine_faults import Fault, OnnxFaults, TfliteFaults, blames, draw_dump_fault, is_located
from scripts.benchmarks.engine_pythons import PACKAGES, NoEngine, engine_python

ROOT = Path(__file__).resolve().parents[2]
WRAPPER = Path(__file__).with_name("faulty_engine.py")
NETWORKS = ("kws_dscnn/kws_dscnn_u8s8_qdq.onnx", "resnet8_cifar10/resnet8_cifar10_s8s8_qdq.onnx")
TFLITE = ("kws_mlperf_int8/kws_mlperf_int8.tflite", "resnet8_cifar10/resnet8_cifar10_int8.tflite")
TIMEOUT_S = 600.0
DRAWS = 200  # of faults that change nothing, before one is given up


@dataclass(frozen=True)
class Setup:
    """How an engine is run. options: KEY=VALUE,... beside its python. words: of the main job. networks: by default.
    weights: the largest magnitude that weights may have."""

    options: str = ""
    weights: int = 128
    words: tuple[str, ...] = ()
    networks: tuple[str, ...] = NETWORKS


def _has_vnni() -> bool:
    path = Path("/proc/cpuinfo")
    return path.exists() and "vnni" in path.read_text()


SETUPS = {
    # Without VNNI its products of bytes saturate in pairs of 16 bits: right only of narrow weights.
    "openvino": Setup(words=("--arithmetic", "openvino"), weights=128 if _has_vnni() else 63),
    "onnxruntime_ep": Setup("ep=qnn,backend_type=htp", words=("--arithmetic", "htp")),
    "tflm": Setup(words=("--arithmetic", "tflm"), networks=TFLITE),
}


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
    kinds: dict[str, list[int]] = field(default_factory=dict)  # planted, found, located of each kind
    lines: list[str] = field(default_factory=list)


def run_engines(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/engines", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"engines, of {', '.join(PACKAGES)}  [default: all]")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models", help="folder of the networks")
    parser.add_argument("--networks", help="comma list of FOLDER/FILE  [default: two small ones that the engine takes]")
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
        given = options.networks.split(",") if options.networks else SETUPS.get(name, Setup()).networks
        for network in given:
            path = options.models / network
            if not path.is_file():
                print(f"{name}: {path} does not exist; --models names the folder of the networks")
                return 2
            rows.append(measure(name, python, path, options.faults, options.seed))
            print(describe(rows[-1]), flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print("\n".join(table(rows)))
    return 1 if failed or any(row.found < row.planted for row in rows) else 0


def describe(row: Row) -> str:
    """Returns the row as a line of text."""
    return (
        f"{row.engine} {row.network}: {row.verdict}, {row.tensors} of {row.expected} tensors paired, {row.equal} equal; "
        f"{row.placed}; {row.seconds:.1f} s, by hand {row.by_hand:.1f} s; faults: {row.found} of {row.planted} found, "
        f"{row.located} located{''.join(f'{chr(10)}    {line}' for line in row.lines)}"
    )


def table(rows: list[Row]) -> list[str]:
    """Returns the lines of BENCHMARKS.md's table of planted faults."""
    lines = ["| engine | network | without a fault | planted | found | located |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = (row.engine, row.network, row.verdict, row.planted, row.found, row.located)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def measure(name: str, python: Path, path: Path, faults: int, seed: int) -> Row:
    """Returns the figures of one network on one engine."""
    row, chance = Row(name, path.stem), random.Random(f"{seed} {name} {path.stem}")
    with tempfile.TemporaryDirectory(prefix="qverify-engines-") as name_of_folder:
        folder = Path(name_of_folder)
        engine = Engine(name, python, path, folder, seed)
        report = engine.verify()
        pair = board_pair(report)
        side = next(s for s in report["sides"] if s["name"] == "board")
        row.verdict = pair["verdict"] + (f" ({pair['cause']})" if pair.get("cause") else "")
        row.tensors, row.expected = pair["coverage"]["compared"], len(report["units"])
        row.equal = sum(bool(t["bit_equal"]) for t in pair["tensors"])
        row.placed = next((n for n in report["notes"] if " nodes ran on " in n), "no placement")
        row.seconds = side["settings"].get("seconds_of_the_command", 0.0)
        if path.suffix == ".onnx":
            row.by_hand = run_by_hand(name, python, path, folder)
        for fault in engine.faults(report, chance, faults):
            outcome = engine.verify(fault)
            located = is_located(outcome, fault, blames(report))
            found = outcome["verdict"] != "PASSED" and (located or differs(outcome, report))
            row.planted, row.found, row.located = row.planted + 1, row.found + found, row.located + (found and located)
            counted = row.kinds.get(fault.kind, [0] * 3)
            row.kinds[fault.kind] = [a + b for a, b in zip(counted, [1, found, found and located], strict=True)]
            if not (found and located):
                row.lines.append(f"{fault.kind} at {', '.join(fault.places[:4])}: {_outcome(outcome)}")
                print(f"    {row.lines[-1]}", flush=True)
    return row


def _outcome(report: dict[str, Any]) -> str:
    """Returns what a report says of a board, in one line."""
    pair, blame = board_pair(report), report.get("blame") or {}
    return f"{report['verdict']}, cause {pair.get('cause')}, blame {blame.get('node')}; {pair.get('why') or ''}"[:400]


def board_pair(report: dict[str, Any]) -> dict[str, Any]:
    """Returns the board's pair with the reference; under an arithmetic, which the reference has not, the simulator's."""
    pairs = {p["a"]: dict(p) for p in report["pairs"] if p["b"] == "board"}
    return pairs["reference" if "reference" in pairs else "simulator"]


def differs(report: dict[str, Any], right: dict[str, Any]) -> bool:
    """Returns whether a report tells more of the board than that of the right engine does."""
    mine, theirs = board_pair(report), board_pair(right)
    if right["verdict"] == "PASSED" or mine["first_divergence"] != theirs["first_divergence"]:
        return True
    return blames(report) != blames(right) or mine.get("cause") != theirs.get("cause")


class Engine:
    """One engine with one network, one input of which is kept for all runs."""

    def __init__(self, name: str, python: Path, path: Path, folder: Path, seed: int):
        self.python, self.path, self.folder = python, path, folder
        self.setup = SETUPS.get(name, Setup())
        self.name = name
        if self.setup.weights < 64 and path.suffix == ".onnx":
            self.path = folder / path.name
            self.path.write_bytes(with_narrow_weights(path))
        self.inputs = {n: self._drawn(n, v, seed) for n, v in network_inputs(path).items()}
        (folder / "cache").mkdir()

    def _drawn(self, name: str, limits: tuple[list[int], str, float, float], seed: int) -> Path:
        shape, dtype, low, high = limits
        values = np.random.default_rng(seed).uniform(low, high, shape)
        path = self.folder / f"{name.replace('/', '_').replace(':', '_')}.npy"
        np.save(path, values.astype(dtype))
        return path

    def verify(self, fault: Fault | None = None) -> dict[str, Any]:
        """Returns the JSON report of the main job with every node."""
        report, told, models = self.folder / "r.json", self.folder / "fault.json", str(self.path)
        python = str(self.python)
        if fault is not None:
            instead = self.folder / f"fault{self.path.suffix}"
            instead.write_bytes(fault.model)
            if fault.model and self.path.suffix == ".onnx":
                models += f",{instead}"
            given = {"model": str(instead)} if fault.model and self.path.suffix == ".tflite" else fault.given
            told.write_text(json.dumps({**given, "cache": str(self.folder / "cache")}))
            python = f"{python} {WRAPPER} {told}"
        engine = ",".join(filter(None, [self.name, f"python={python}", self.setup.options]))
        words = ["-m", models, "-b", "local", "--runtime", engine, "-r", "True", "--json", str(report)]
        words += self.setup.words
        if self.path.suffix == ".onnx":  # of a .tflite, qverify draws inputs in its own layout
            words += ["-i", ",".join(map(str, self.inputs.values()))]
        report.unlink(missing_ok=True)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            main(words)
        if not report.exists():
            raise SystemExit(f"qverify {' '.join(words)}: {shown.getvalue().strip()[-500:]}")
        content: dict[str, Any] = json.loads(report.read_text())
        return content

    def faults(self, report: dict[str, Any], chance: random.Random, number: int) -> list[Fault]:
        """Draws faults, half of them in the model."""
        rows, shapes = board_pair(report)["tensors"], [v[0] for v in network_inputs(self.path).values()]
        image = all(len(s) == 4 and 3 in (s[1], s[3]) for s in shapes)
        read = [u for u in report["units"] if not u["inputs"] or {*u["inputs"]} & {*self.inputs}]
        first = {name for unit in read for name in unit["outputs"]}
        first |= {o for u in report["units"] if first & {*u["inputs"]} for o in u["outputs"]}
        models = (TfliteFaults if self.path.suffix == ".tflite" else OnnxFaults)(self.path)
        drawn = list[Fault]()
        for number_of_fault in range(number):
            for _ in range(DRAWS):
                fault = (
                    models.draw(chance) if number_of_fault % 2 else draw_dump_fault(rows, tuple(first), image, chance)
                )
                if fault is not None and (not fault.model or self.changes(fault.model)):
                    drawn.append(fault)
                    break
        return drawn

    def changes(self, model: bytes) -> bool:
        """Returns whether a tensor of the altered network differs from that of the right one."""
        inputs = {name: np.load(path) for name, path in self.inputs.items()}
        try:
            altered = all_tensors(model, inputs, self.path.suffix)
        except Exception:  # what onnxruntime or LiteRT refuses is no fault that an engine can run
            return False
        right = all_tensors(self.path.read_bytes(), inputs, self.path.suffix)
        return any(not np.array_equal(altered[name], value) for name, value in right.items() if name in altered)


def with_narrow_weights(path: Path) -> bytes:
    """Returns a quantized ONNX whose int8 weights are halved, and their scales and those of the biases doubled. Where
    activations are int8, weights are even, too: of such a convolution, OpenVINO halves them itself."""
    faults = OnnxFaults(path)
    signed = any(t.data_type == onnx.TensorProto.INT8 and not t.dims for t in faults.constants.values())
    model, scales = faults.model, set[str]()
    for node in faults.sums:
        for name in node.input[1:]:
            tensor, maker = faults.constant(name), faults.makers.get(name)
            if tensor is None or maker is None or tensor.name in scales:
                continue
            stored = onnx.numpy_helper.to_array(tensor)
            halved = np.rint(stored / 4) * 2 if signed and stored.dtype == np.int8 else np.rint(stored / 2)
            tensor.CopyFrom(onnx.numpy_helper.from_array(halved.astype(stored.dtype), tensor.name))
            scale = faults.constants[maker.input[1]]
            if scale.name not in scales:
                doubled = onnx.numpy_helper.to_array(scale) * np.float32(2)
                scale.CopyFrom(onnx.numpy_helper.from_array(doubled, scale.name))
            scales |= {tensor.name, scale.name}
    return model.SerializeToString()


def network_inputs(path: Path) -> dict[str, tuple[list[int], str, float, float]]:
    """Returns shape, type and limits of each input, by name."""
    if path.suffix == ".tflite":
        from ai_edge_litert.interpreter import Interpreter

        details = Interpreter(str(path)).get_input_details()
        limits = {"int8": (-128, 128), "uint8": (0, 256)}
        return {
            d["name"]: (
                list(map(int, d["shape"])),
                np.dtype(d["dtype"]).name,
                *limits.get(np.dtype(d["dtype"]).name, (-1, 1)),
            )
            for d in details
        }
    model = onnx.load(path)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        dims = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        reader = next((n for n in model.graph.node if value.name in n.input and n.op_type == "QuantizeLinear"), None)
        scale = float(constants[reader.input[1]]) if reader is not None else 1 / 127
        zero = int(constants[reader.input[2]]) if reader is not None else 0
        least = 0 if reader is not None and constants[reader.input[2]].dtype == np.uint8 else -128
        found[value.name] = (dims, "float32", (least - zero) * scale, (least + 255 - zero) * scale)
    return found


def all_tensors(model: bytes, inputs: dict[str, Any], suffix: str) -> dict[str, Any]:
    """Returns the tensors of a network that onnxruntime or LiteRT computes."""
    if suffix == ".tflite":
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        runner = Interpreter(
            model_content=model,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        )
        runner.allocate_tensors()
        for detail in runner.get_input_details():
            runner.set_tensor(detail["index"], inputs[detail["name"]])
        runner.invoke()
        outputs = {o for op in runner._get_ops_details() for o in op["outputs"]}
        return {d["name"]: runner.get_tensor(d["index"]) for d in runner.get_tensor_details() if d["index"] in outputs}
    import onnxruntime

    parsed = onnx.load_from_string(model)
    names = [n.output[0] for n in parsed.graph.node if n.op_type == "QuantizeLinear"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    known = {o.name for o in parsed.graph.output}
    parsed.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names) if n not in known)
    names = [o.name for o in parsed.graph.output]
    session = onnxruntime.InferenceSession(parsed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, inputs)))  # noqa: B905


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
    pairs = (pair.partition("=") for pair in SETUPS.get(name, Setup()).options.split(",") if pair)
    options = {key: [value] for key, _, value in pairs}
    request = folder / "request.json"
    request.write_text(
        json.dumps(
            {
                "model": str(path),
                "inputs": inputs,
                "outputs": [o.name for o in model.graph.output],
                "taps": [],
                "out": str(out),
                "options": options,
                "files": {},
            }
        )
    )
    driver = ROOT / "agents" / "qverify_drivers" / "drive.py"
    start = time.perf_counter()
    subprocess.run([python, driver, name, request], cwd=out, check=True, timeout=TIMEOUT_S, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(run_engines(sys.argv[1:]))
