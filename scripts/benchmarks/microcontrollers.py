"""Flash and RAM of the hook and of the agent on microcontrollers, and what kws takes there: python -m scripts.benchmarks.microcontrollers
FOLDER_OF_MODELS prints the tables of BENCHMARKS.md."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.records import encode
from qverify_agents.emulation.mcu_sources import compile_agent, known_ops, sources_root, write_sources

MODELS = {
    "kws": "kws_mlperf_int8/kws_mlperf_int8_tfl_int8_qdq.onnx",
    "vww_96": "vww_96/vww_96_s8s8_qdq.onnx",
    "resnet8": "resnet8_cifar10/resnet8_cifar10_s8s8_qdq.onnx",
    "ad_toycar": "ad_toycar/ad_toycar_s8s8_qdq.onnx",
}
BOARDS = ("an385", "an386", "an500", "an505", "an547", "virt-rv32")


def size_of(program: Path) -> tuple[int, int]:
    """Returns the bytes of flash and of static RAM of a program without its stack."""
    tool = "riscv64-unknown-elf-size" if "rv32" in program.name else "arm-none-eabi-size"
    rows = subprocess.run([tool, "-A", program], capture_output=True, text=True, check=True).stdout
    sizes = {name: int(size) for name, size in re.findall(r"^\.(\w[\w.]*)\s+(\d+)", rows, re.M)}
    code = sum(sizes.get(n, 0) for n in ("text", "ARM.exidx", "data"))
    return code, sizes.get("data", 0) + sizes.get("bss", 0)


def agents(models: Path) -> None:
    """Prints flash and static RAM of agents with the ops of several models, without the models."""
    graphs = {
        n: compile_model((models / f).read_bytes(), n, CompilerOptions(check=False)).graph for n, f in MODELS.items()
    }
    ops = {name: sorted({node.op for node in graph.nodes}) for name, graph in graphs.items()}
    sets: dict[str, Sequence[str]] = {
        "no op": [],
        "kws": ops["kws"],
        "kws and vww_96": sorted({*ops["kws"], *ops["vww_96"]}),
        "all four": sorted({op for listed in ops.values() for op in listed}),
        "every op": known_ops(sources_root()),
    }
    print("| agent with the ops of | " + " | ".join(BOARDS) + " |\n|---|" + "---|" * len(BOARDS))
    for title, listed in sets.items():
        cells = []
        with tempfile.TemporaryDirectory() as folder:
            files = write_sources(Path(folder), listed, {})
            for board in BOARDS:
                flash, ram = size_of(compile_agent(Path(folder), files, board))
                cells.append(f"{flash / 1024:.1f} + {ram / 1024:.1f} KB")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)
    print({name: len(encode(graph)) for name, graph in graphs.items()})


def hook() -> None:
    """Prints flash and RAM of the hook."""
    with tempfile.TemporaryDirectory() as folder:
        for title, compiler, flags in (
            ("Cortex-M0+", "arm-none-eabi", ["-mcpu=cortex-m0plus", "-mthumb"]),
            ("Cortex-M4", "arm-none-eabi", ["-mcpu=cortex-m4", "-mthumb"]),
            ("rv32imac", "riscv64-unknown-elf", ["-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"]),
        ):
            out = Path(folder) / "hook.o"
            words = [*flags, "-std=c99", "-Os", "-c", str(sources_root() / "hook" / "qv_hook.c"), "-o", str(out)]
            subprocess.run([f"{compiler}-gcc", *words], check=True)
            shown = subprocess.run([f"{compiler}-size", out], capture_output=True, text=True, check=True).stdout
            text, data, bss = map(int, shown.splitlines()[1].split()[:3])
            print(f"| {title} | {text + data} | {data + bss} |")


if __name__ == "__main__":
    hook()
    agents(Path(sys.argv[1]))
