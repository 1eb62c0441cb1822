"""Every file of tests/ops/cases: its reference cases and its random nodes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.ops.qdq import Qdq
from tests.ops.random_nodes import RandomNodes

FOLDER = Path(__file__).parent / "cases"
Build = Callable[[Qdq], None]


def files() -> dict[str, ModuleType]:
    """Stem of the op to its file."""
    stems = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "__init__")
    return {stem: import_module(f"tests.ops.cases.{stem}") for stem in stems}


def references(file: ModuleType) -> dict[str, tuple[Build, bool]]:
    """Name of a reference case of this file to what builds it, and whether onnxruntime has an integer kernel for it."""
    own = [f for f in vars(file).values() if getattr(f, "__module__", "") == file.__name__ and hasattr(f, "integer")]
    return {build.__name__: (build, build.integer) for build in own}


FILES = files()
RANDOM_NODES: dict[str, Callable[[RandomNodes], None]] = {
    stem: file.random_nodes for stem, file in FILES.items() if hasattr(file, "random_nodes")
}
CASES: dict[
    str, tuple[Build, str, bool]
] = {}  # name: build, the op that must appear, onnxruntime has an integer kernel
for _stem, _file in FILES.items():
    for _name, (_build, _integer) in references(_file).items():
        assert _name not in CASES, f"tests/ops/cases/{_stem}.py: {_name} is the name of a case of {CASES[_name][1]} too"
        CASES[_name] = (_build, _stem, _integer)
ACTIVATIONS = {
    "u8": ("uint8", False),
    "s8": ("int8", False),
    "s8sym": ("int8", True),
    "u16": ("uint16", False),
    "s16": ("int16", True),
}
ON_FLOATS = {  # stems that read no quantized tensor: one activation of 8 bits and one of 16 around them are enough
    *(stem for stem in FILES if stem.endswith("_float")),
    *(
        "cast",
        "conv_integer",
        "dynamic_quantize",
        "group_norm",
        "log_softmax",
        "lp_norm",
        "matmul_integer",
        "matmul_blocks",
        "quantize_blocks",
    ),
    *("matmul_integer_scaled", "rms_norm", "half_float", "lstm", "lstm_integer", "gru", "rnn"),
    *("elementwise_integer", "gather_elements", "gather_nd", "scatter_elements"),
    *("reduce_integer", "arg_min", "scatter_nd", "non_max_suppression", "one_hot", "cum_sum", "top_k", "trilu"),
}
assert FILES.keys() >= ON_FLOATS
CASES_OF_ACTIVATIONS = [
    (name, act) for name, (_, stem, _) in CASES.items() for act in (("u8", "s16") if stem in ON_FLOATS else ACTIVATIONS)
]
