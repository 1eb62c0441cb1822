"""Rockchip's rknn-toolkit2: builds from the ONNX and runs the toolkit's simulator on this host.

A float ONNX is quantized by the toolkit (hybrid_quantization_step1 and _step2) with a calibration set; accuracy_analysis
then writes every tensor, in real values. A QDQ ONNX is built with the quantization that it states; of it, the toolkit's
simulator gives the final outputs only. Success is what the calls return and what they wrote: lines of a good build begin
with E, too."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import os
import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np
import onnx
from drive import Answer, Placed, Refused, Request

SAME_VALUES = re.compile(r"(?:_int8|_int16|_mm|[-_]rs)\Z")  # endings that the toolkit adds to tensors of equal values
QUANTIZED, DEQUANTIZED = "_QuantizeLinear_Output", "_DequantizeLinear_Output"
HALF = "__float16"  # the ending of a cast that Softmax reads
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
PARTS = (".model", ".data", ".quantization.cfg")  # the files of hybrid_quantization_step1
LOG, SNAPSHOT = "rknn.log", "snapshot"


def run(request: Request) -> Answer:
    """Builds and runs the ONNX once. Taps that the toolkit does not write are left out."""
    work = os.path.join(os.getcwd(), "rknn")
    os.makedirs(work, exist_ok=True)
    with _quiet(os.path.join(work, LOG)), _inside(work):
        try:
            toolkit = _Toolkit(request, onnx.load(request.model), work)
            toolkit.build()
            finals = toolkit.infer()
            names = toolkit.named(toolkit.analyse() if request.taps and not toolkit.is_quantized else [])
        except (Refused, ModuleNotFoundError):
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # the toolkit's text is a whole traceback, and the reason its last line
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise Refused(
                f"rknn-toolkit2: {type(error).__name__}: {lines[-1] if lines else 'no reason given'}"
            ) from error
    tensors = {**dict(names), **finals}
    version = metadata.version("rknn-toolkit2")
    return Answer(tensors, "rknn-toolkit2", version, toolkit.ledger(), toolkit.placed, toolkit.notes)


class _Toolkit:
    """One build of one model. is_quantized: whether the ONNX states its quantization."""

    def __init__(self, request: Request, model: Any, work: str):
        self.request, self.model, self.work = request, model, work
        self.target = request.option("target", "rk3588")
        self.is_quantized = any(node.op_type == "DequantizeLinear" for node in model.graph.node)
        self.steps: dict[str, Any] = {}  # scale and zero point of int8 tensors, as the toolkit states them
        self.notes: list[Any] = []
        self.placed: list[Any] = []
        self._rknn = self._new()

    def _new(self) -> Any:
        rknn = importlib.import_module("rknn.api").RKNN(verbose=False)
        words = dict(pair.split("=", 1) for pair in self.request.options.get("config", ()))
        self._check("config", rknn.config(target_platform=self.target, **{k: _value(v) for k, v in words.items()}))
        return rknn

    def _check(self, call: str, status: Any) -> None:
        """Raises Refused if a call of the toolkit did not return 0."""
        if status not in (0, None):
            raise Refused(f"rknn-toolkit2: {call} returned {status}{_last_error(os.path.join(self.work, LOG))}")

    def build(self) -> None:
        if self.is_quantized:
            self._check("load_onnx", self._rknn.load_onnx(model=self.request.model))
            self._check("build", self._rknn.build(do_quantization=False))
            self.notes.append("rknn: of a QDQ ONNX, the toolkit's simulator gives the final outputs only")
        else:
            stem = self._quantized()
            self.steps = _steps(stem + PARTS[2])
            model, data, cfg = (stem + part for part in PARTS)
            step = self._rknn.hybrid_quantization_step2
            self._check(
                "hybrid_quantization_step2", step(model_input=model, data_input=data, model_quantization_cfg=cfg)
            )
        self._check("init_runtime", self._rknn.init_runtime())

    def _quantized(self) -> str:
        """Returns the path, without its ending, of the files of hybrid_quantization_step1: the user's, those of a former
        run with the same model, options and calibration set, or new ones."""
        given = self.request.option("quantization")
        if given:
            stem = given[: -len(PARTS[2])] if given.endswith(PARTS[2]) else given
            lacking = [part for part in PARTS if not os.path.isfile(stem + part)]
            if lacking:
                raise Refused(
                    f"quantization={given}: no {os.path.basename(stem)}{lacking[0]} there; wanted {', '.join(PARTS)}"
                )
            return stem
        dataset, sizes = self._dataset()
        cache = self.request.option("cache")
        if not cache:
            return self._first_step(dataset, self.work)
        folder = os.path.join(cache, self._key(dataset))
        stem = os.path.join(folder, "model")
        if not all(os.path.isfile(stem + part) for part in PARTS):
            made = self._first_step(dataset, self.work)
            os.makedirs(folder, exist_ok=True)
            for part in PARTS:
                shutil.copy(made + part, stem + part)
        self.notes.append(f"rknn: {stem}{PARTS[2]} states the quantization, of {sizes}")
        return stem

    def _first_step(self, dataset: str, folder: str) -> str:
        rknn = self._new()
        path = os.path.join(folder, "model.onnx")
        if os.path.realpath(self.request.model) != os.path.realpath(path):
            shutil.copy(self.request.model, path)
        self._check("load_onnx", rknn.load_onnx(model=path))
        self._check("hybrid_quantization_step1", rknn.hybrid_quantization_step1(dataset=dataset, proposal=False))
        rknn.release()
        return os.path.join(folder, "model")

    def _dataset(self) -> tuple[Any, ...]:
        """Returns the path of the calibration set's list, and its size in words."""
        given = self.request.option("calibration")
        rows = [self._saved_inputs()]
        if os.path.isdir(given):
            rows = [[os.path.join(given, name)] for name in sorted(os.listdir(given)) if name.endswith(".npy")]
        elif given:
            if not os.path.isfile(given):
                raise Refused(f"calibration={given}: neither a folder of .npy files nor a list of them")
            base = os.path.dirname(os.path.abspath(given))
            with open(given, encoding="utf-8") as file:
                rows = [[os.path.join(base, word) for word in line.split()] for line in file if line.strip()]
        wrong = [row for row in rows if len(row) != len(self.request.inputs) or not all(map(os.path.isfile, row))]
        if not rows or wrong:
            raise Refused(
                f"calibration={given}: {wrong[0][:2] if wrong else 'no .npy file'}; wanted for each sample one file of each of "
                f"{len(self.request.inputs)} inputs"
            )
        path = os.path.join(self.work, "dataset.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(" ".join(map(os.path.abspath, row)) + "\n" for row in rows))
        if not given:
            self.notes.append(
                "rknn: quantized with the prepared input as its calibration set; calibration= names another"
            )
        return path, f"{len(rows)} calibration {'sample' if len(rows) == 1 else 'samples'}"

    def _key(self, dataset: str) -> str:
        """Returns a name for what the quantization follows from."""
        digest = hashlib.sha256()
        with open(dataset, encoding="utf-8") as file:
            paths = [self.request.model, *file.read().split()]
        for path in paths:
            with open(path, "rb") as content:
                digest.update(hashlib.sha256(content.read()).digest())
        words = (self.target, metadata.version("rknn-toolkit2"), *self.request.options.get("config", ()))
        digest.update(repr(words).encode())
        return digest.hexdigest()[:16]

    def _saved_inputs(self) -> list[Any]:
        paths = []
        for number, value in enumerate(self.request.inputs.values()):
            paths.append(os.path.join(self.work, f"input{number}.npy"))
            np.save(paths[-1], value)
        return paths

    def infer(self) -> dict[str, Any]:
        """Returns the final outputs. The toolkit gives them in the order of the graph's outputs."""
        arrays = list(self.request.inputs.values())
        found = self._rknn.inference(inputs=arrays, data_format=["nchw"] * len(arrays))
        names = [output.name for output in self.model.graph.output]
        if found is None or len(found) != len(names):
            got = "nothing" if found is None else f"{len(found)} outputs"
            raise Refused(
                f"rknn-toolkit2: inference gave {got}; wanted {len(names)}{_last_error(os.path.join(self.work, LOG))}"
            )
        shapes = _shapes(self.model)
        for name, value in dict(zip(names, found)).items():  # noqa: B905 (Python 3.8)
            if shapes.get(name) and all(shapes[name]) and tuple(shapes[name]) != np.shape(value):
                raise Refused(
                    f"rknn-toolkit2: output {name} has the shape {list(np.shape(value))}; the ONNX has {shapes[name]}"
                )
        return {name: np.array(found[k]) for k, name in enumerate(names) if name in self.request.outputs}

    def analyse(self) -> list[Any]:
        """Returns name, operator and values of every tensor that accuracy_analysis writes, in the order of execution."""
        paths = self._saved_inputs()
        self._check("accuracy_analysis", self._rknn.accuracy_analysis(inputs=paths, output_dir=SNAPSHOT))
        rows = []
        for name, stem in _map(os.path.join(SNAPSHOT, "map_name_to_file.txt")):
            path = os.path.join(SNAPSHOT, "simulator", "npy", stem + ".npy")
            if os.path.isfile(path):
                rows.append((name, stem, np.load(path, allow_pickle=False)))
        twice = {stem for _, stem, _ in rows if sum(s == stem for _, s, _ in rows) > 1}
        if twice:
            self.notes.append(
                f"rknn: {len(twice)} files have the values of two tensors each: left out, first {min(twice)}"
            )
        self._place(os.path.join(SNAPSHOT, "error_analysis.txt"))
        return [row for row in rows if row[1] not in twice]

    def _place(self, path: str) -> None:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                match = re.match(r"\[(\S+)\] (\S.*?)(?:  .*)?$", line.rstrip())
                if match and match[1] != "Input":
                    self.placed.append(Placed(match[2], match[1], f"simulator of {self.target}"))

    def named(self, rows: list[Any]) -> list[Any]:
        """Returns name and values of each tensor, under the request's names where they can be resolved."""
        wanted, shapes = {*self.request.outputs, *self.request.taps}, _shapes(self.model)
        made, own = {}, {name for name, _, _ in rows}
        for name, _, value in rows:
            spellings = [name]
            while SAME_VALUES.sub("", spellings[-1]) not in ("", spellings[-1]):
                spellings.append(SAME_VALUES.sub("", spellings[-1]))
            if name.endswith(HALF):  # of the product that became a convolution, too
                spellings += [SAME_VALUES.sub("", name[: -len(HALF)]) + HALF]
            for spelling in spellings:
                exact = spelling == name or spelling not in own or name.endswith(("_int8", "_int16"))
                target, shaped = spelling, _shaped(value, shapes.get(re.sub(HALF + r"\Z", "", spelling)))
                if spelling + QUANTIZED in wanted:
                    codes = _codes(shaped, self.steps.get(name))
                    if codes is None and {name + "_int8", name + "_int16"} & own:
                        continue  # the values before the cast
                    target = spelling + (DEQUANTIZED if codes is None else QUANTIZED)
                    shaped = shaped if codes is None else codes
                elif spelling not in wanted:
                    continue
                if exact and target not in made:
                    made[target] = shaped
                    break
            else:
                made.setdefault(name, value)
        return list(made.items())

    def ledger(self) -> dict[str, Any]:
        packages = ("rknn-toolkit2", "torch", "onnx", "onnxruntime", "numpy")
        return {**{name: metadata.version(name) for name in packages if _installed(name)}, "target": self.target}


def _steps(path: str) -> dict[str, Any]:
    """Returns scale and zero point of each int8 tensor that quantization.cfg states."""
    yaml = importlib.import_module("ruamel.yaml").YAML(typ="safe")
    with open(path, encoding="utf-8") as file:
        stated = yaml.load(file)["quantize_parameters"]
    return {
        str(name): (float(tensor["scale"][0]), int(tensor["zero_point"][0]))
        for name, tensor in stated.items()
        if tensor["dtype"] == "int8" and len(tensor["scale"]) == 1
    }


def _codes(value: Any, step: Any) -> Any:
    """Returns the int8 of real values that are exactly those of integers, or None: a tensor within a fused group has
    others."""
    if step is None or value.dtype != np.float32 or not np.isfinite(value).all():
        return None
    scale, zero = np.float32(step[0]), step[1]
    codes = np.rint(value / scale) + zero
    if codes.min() < -128 or codes.max() > 127:
        return None
    return codes.astype(np.int8) if np.array_equal((codes - zero).astype(np.float32) * scale, value) else None


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _shaped(value: Any, shape: Any) -> Any:
    """Returns the values in the ONNX's dims if it has as many elements."""
    return value.reshape(shape) if shape and all(shape) and value.size == np.prod(shape) else value


def _shapes(model: Any) -> dict[str, Any]:
    """Returns the dims of each tensor of the ONNX, as far as they are known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    infos = (*graph.value_info, *graph.input, *graph.output)
    return {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in infos if i.type.HasField("tensor_type")
    }


def _map(path: str) -> list[Any]:
    """Returns layer and stem of its file of each row, in order. The second column begins where its head does."""
    rows, start = [], -1
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if start < 0:
                start = line.find("file_name")
            elif not line.startswith("---") and line.strip():
                rows.append((line[:start].rstrip(), re.sub(r"\.(txt|npy)\Z", "", line[start:].strip())))
    return rows


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _last_error(path: str) -> str:
    """Returns the last line of the toolkit's output that is an error, after a colon; "" without any."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [COLOUR.sub("", line).strip() for line in file.read().replace("\r", "\n").splitlines()]
    errors = [line for line in lines if re.match(r"(?:E |\w*(?:Error|Exception):)", line)]
    return f": {errors[-1][:300]}" if errors else ""


@contextlib.contextmanager
def _quiet(path: str) -> Iterator[None]:
    """Sends what the toolkit prints to a file."""
    saved = [os.dup(1), os.dup(2)]
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        for number, copy in zip((1, 2), saved):  # noqa: B905 (Python 3.8)
            os.dup2(copy, number)
            os.close(copy)
        os.close(log)


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
