"""SYNTHETIC: a stand-in for Horizon's hrt_model_exec. It runs nothing: its model file holds the tensors that it "computes" for one
input (see `model_file`). Options, texts and names of files are those of the public documents (the runner's page names them); what
these leave open, such as the ending of per-node files, is made up here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

OLD = [
    "model_file",
    "model_name",
    "core_id",
    "input_file",
    "roi_infer",
    "roi",
    "frame_count",
    "dump_intermediate",
    "enable_dump",
    "dump_precision",
    "hybrid_dequantize_process",
    "dump_format",
    "dump_txt_axis",
    "enable_cls_post_process",
    "perf_time",
    "thread_num",
    "profile_path",
]
NEW = [n for n in OLD if n != "hybrid_dequantize_process"] + [
    "dump_path",
    "dequantize_process",
    "remove_padding_process",
]
TYPES = {"int8": "S8", "uint8": "U8", "int16": "S16", "int32": "S32", "float32": "F32"}


def model_file(path: Path, inputs: dict[str, np.ndarray], tensors: dict[str, np.ndarray], outputs: dict[str, tuple[int, ...]],  # type: ignore[type-arg]
               scales: dict[str, float] | None = None) -> None:  # fmt: skip
    """Writes a model file. tensors: of every node, in running order. outputs: by name, their aligned shapes."""
    meta = {"inputs": [*inputs], "outputs": outputs, "nodes": [*tensors], "scales": scales or {}}
    arrays = {f"in{i}": v for i, v in enumerate(inputs.values())} | {
        f"node{i}": v for i, v in enumerate(tensors.values())
    }
    with path.open("wb") as file:
        np.savez(file, meta=json.dumps(meta), **arrays)


class Tool:
    def __init__(self, words: list[str]):
        self.flags = {}
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word.startswith("-"):
                name, equal, value = word.lstrip("-").partition("=")
                self.flags[name] = value if equal or not rest or rest[0].startswith("-") else rest.pop(0)
        self.fault, self.old = os.environ.get("HRT_FAULT", ""), os.environ.get("HRT_BUILD", "new") == "old"
        known = OLD if self.old else NEW
        if unknown := [f for f in self.flags if f not in known]:
            print(f"ERROR: unknown command line flag '{unknown[0]}'")
            sys.exit(1)

    def on(self, flag: str) -> bool:
        return self.flags.get(flag, "false").lower() in ("1", "true")

    def load(self) -> None:
        print("[BPU_PLAT]BPU Platform Version(1.3.6)!\n[HBRT] set log level as 0. version = 3.15.55.0")
        print("[DNN] Runtime version = 1.24.5_(3.15.55 HBRT)")
        try:
            with np.load(self.flags["model_file"]) as held:
                self.meta = json.loads(str(held["meta"]))
                self.inputs = {n: held[f"in{i}"] for i, n in enumerate(self.meta["inputs"])}
                self.tensors = {n: held[f"node{i}"] for i, n in enumerate(self.meta["nodes"])}
        except (OSError, ValueError, KeyError):
            print("[E][DNN] load model failed, error code:-6000001")
            sys.exit(1)
        print(
            "\x1b[32m[A][DNN][packed_model.cpp:247][Model](2025-07-24,22:00:31.501.776) [HorizonRT] The model builder version = 1.24.3\x1b[0m"
        )
        print("Load model to DDR cost 157.554ms.")

    def model_info(self) -> None:
        models = ["stand_in", "another"] if self.fault == "packed" else ["stand_in"]
        print(f"This model file has {len(models)} model:\n[{'] ['.join(models)}]\n" + "-" * 69)
        for model in models:
            print(f"[model name]: {model}\n")
            for i, (name, value) in enumerate(self.inputs.items()):
                size = value.nbytes + (64 if self.fault == "other_input" else 0)
                self.describe("input", i, name, value, value.shape, size)
            for i, (name, aligned) in enumerate(self.meta["outputs"].items()):
                value = self.tensors[name]
                self.describe("output", i, name, value, tuple(aligned), int(np.prod(aligned)) * value.itemsize)

    def describe(
        self, kind: str, index: int, name: str, value: np.ndarray, aligned: tuple[int, ...], size: int
    ) -> None:  # type: ignore[type-arg]
        def dims(shape: tuple[int, ...]) -> str:
            return "(" + "".join(f"{d}," for d in shape) + ")"

        strides = [value.itemsize * int(np.prod(aligned[i + 1 :])) for i in range(len(aligned))]
        scale = self.meta["scales"].get(name)
        print(f"{kind}[{index}]: ")
        if not self.old:
            print(f"name: {name}")
        print(f"valid shape: {dims(value.shape)}\naligned shape: {dims(aligned)}\naligned byte size: {size}")
        print(f"tensor type: HB_DNN_TENSOR_TYPE_{TYPES[value.dtype.name]}\ntensor layout: HB_DNN_LAYOUT_NHWC")
        print(f"quanti type: {'SCALE' if scale else 'NONE'}")
        if not self.old:
            print(f"stride: {dims(tuple(strides))}")
        if scale:
            print(f"scale data: {scale:.6g},\nquantizeAxis: -1")
        print()

    def infer(self) -> None:
        print("I0727 10:11:12.131415  1234 main.cpp:623] get model handle success")
        fed = self.flags["input_file"].split(",")
        same = len(fed) == len(self.inputs)
        for path, value in zip(fed, self.inputs.values(), strict=False):
            data = Path(path).read_bytes()
            same = same and data == value.tobytes()
            print(f"I0727 main.cpp:700] file length: {len(data)}\nI0727 main.cpp:701] read file success!")
        if self.fault == "error" or not same:
            print("[E][DNN] infer failed, error code:-6000006")
            return  # with status 0, as nobody says what its status is
        print("I0727 main.cpp:900] infer success\nI0727 main.cpp:901] task done\nInfer time: 23.659 ms")
        folder = Path(self.flags.get("dump_path", "."))
        spoilt = os.environ.get("HRT_SPOIL", "")
        if self.flags.get("dump_intermediate", "0") == "0":
            spoilt = os.environ.get("HRT_SPOIL_WITHOUT_DUMPS", spoilt)
        for i, (name, aligned) in enumerate(self.meta["outputs"].items() if self.on("enable_dump") else ()):
            if self.fault != "no_output":
                self.dump(
                    folder / f"model_infer_output_{i}_{name.replace('/', '_').replace(':', '_')}",
                    self.value(name, spoilt),
                    aligned,
                    name,
                )
        for i, name in enumerate(self.tensors if self.flags.get("dump_intermediate", "0") != "0" else ()):
            value = self.value(name, spoilt)
            stem = folder / f"layer-{i}-bpu-stand-in_subgraph_0-output-0-{name.replace('/', '_').replace(':', '_')}"
            Path(f"{stem}.bin").write_bytes(value.tobytes())
            if self.flags["dump_intermediate"] in ("2", "3"):
                np.savetxt(f"{stem}.txt", value.reshape(-1), "%d" if value.dtype.kind in "iu" else "%.9f")
        print("hbDNNRelease success!")

    def value(self, name: str, spoilt: str) -> np.ndarray:  # type: ignore[type-arg]
        value = self.tensors[name].copy()
        if name == spoilt:
            value.reshape(-1)[0] += 16 if value.dtype.kind in "iu" else 0.5
        return value

    def dump(self, path: Path, value: np.ndarray, aligned: list[int], name: str) -> None:  # type: ignore[type-arg]
        if self.flags.get("dump_format", "bin") == "txt":
            real = value
            if self.on("hybrid_dequantize_process") or self.on("dequantize_process"):
                real = value.astype("float32") * np.float32(self.meta["scales"].get(name, 1))
            floats = real.dtype.kind == "f"
            digits = self.flags.get("dump_precision", "9")
            np.savetxt(f"{path}.txt", real.reshape(-1, real.shape[-1]), f"%.{digits}f" if floats else "%d")
            return
        whole = np.zeros(value.shape if self.on("remove_padding_process") else aligned, value.dtype)
        whole[tuple(slice(0, d) for d in value.shape)] = value
        Path(f"{path}.bin").write_bytes(whole.tobytes())

    def perf(self) -> None:
        frames = int(self.flags.get("frame_count", 200))
        print(
            f"Frame count: {frames},  Thread Average: 4.003106 ms,  thread max latency: 5 ms,  thread min latency: 3 ms,  FPS: 244.2"
        )
        print(
            f"\nRunning condition:\n  Thread number is: {self.flags.get('thread_num', '1')}\n  Frame count   is: {frames}"
        )
        print("  Program run time: 818.985000 ms\nPerf result:\n  Frame totally latency is: 800.621155 ms")
        print("  Average    latency    is: 4.003106 ms\n  Frame      rate       is: 244.204717 FPS")
        if "profile_path" in self.flags:
            (Path(self.flags["profile_path"]) / "profiler.log").write_text("{}")


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        build = OLD if os.environ.get("HRT_BUILD", "new") == "old" else NEW
        print("Usage: hrt_model_exec [Option...] [Parameter]\n" + "\n".join(f"\t--{n} [string]: ..." for n in build))
        return 1
    if words[0] in ("-v", "--version"):
        print("1.24.5_(3.15.55 HBRT)")
        return 0
    tool = Tool(words[1:])
    tool.load()
    {"model_info": tool.model_info, "infer": tool.infer, "perf": tool.perf}[words[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
