"""A chip that computes probes of Mul and of changes of the quantization, for tests: `python probed_chip.py MODEL NPYS OUT
[bits=12] [rule=up] [last=BITS] [flaky] [fail=RUN] [kill=RUN] [state=FILE]`. Its multiplier has `bits` fraction bits."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def scaled(acc: np.ndarray, scale: float, bits: int, rule: str) -> np.ndarray:
    """Returns acc * M >> bits, M = RNE(scale * 2^bits), halves up or everything down."""
    product = acc.astype(np.int64) * int(np.rint(scale * 2.0**bits))
    return product + ((1 << bits >> 1) if rule == "up" else 0) >> bits


def main() -> int:
    model, inputs, out, *words = sys.argv[1:]
    options = {w.partition("=")[0]: w.partition("=")[2] for w in words}
    run = 0
    if "state" in options:
        state = Path(options["state"])
        run = int(state.read_text()) + 1 if state.exists() else 1
        state.write_text(str(run))
    if options.get("fail") == str(run):
        print("the supply dropped")
        return 7
    if options.get("kill") == str(run):
        os.kill(os.getpid(), signal.SIGKILL)
    graph = onnx.load(model).graph
    value = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    maker = {n.output[0]: n for n in graph.node}
    feeds = dict(zip((i.name for i in graph.input), map(np.load, inputs.split(",")), strict=True))

    def centred(name: str) -> tuple[np.ndarray, float]:
        """Returns the integers of a dequantized input without its zero point, and its scale."""
        scale = value[maker[name].input[1]]
        return np.rint(feeds[maker[maker[name].input[0]].input[0]] / scale).astype(np.int64), float(scale)

    for output in graph.output:  # a function is a change of the quantization, too, with its input's integers
        quantize = maker[maker[output.name].input[0]]
        scale, zero = (value[n] for n in quantize.input[1:])
        node = maker[quantize.input[0]]
        node = maker[node.input[0]] if len(node.input) == 1 else node
        if node.op_type == "Mul":
            (a, first), (b, second) = map(centred, node.input)
            acc, real = a * b, first * second / float(scale)
        else:
            acc, first = centred(node.output[0])
            real = first / float(scale)
        made = scaled(acc, real, int(options.get("bits", 12)), options.get("rule", "up"))
        if "last" in options:
            made[..., -1] = scaled(acc, real, int(options["last"]), "up")[..., -1]
        if "flaky" in options:
            made.reshape(-1)[5] += np.random.default_rng().integers(0, 1 << 30) % 100
        limits = np.iinfo(zero.dtype)
        stored = np.clip(made + int(zero), limits.min, limits.max)
        np.save(Path(out) / f"{output.name}.npy", ((stored - int(zero)) * scale).astype(np.float32))
    return 0


if __name__ == "__main__":
    sys.exit(main())
