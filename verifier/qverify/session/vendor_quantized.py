"""A float ONNX and the files in which a vendor's toolkit states how it quantized it (--quantization), or an .espdl, which
holds the quantized network itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.model_bin.graph import Graph
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInput, PreparedInputs

if TYPE_CHECKING:
    from qverify.vendor_quantization import Quantized

WHERE = "--quantization"
ESPDL = b"EDL2"  # the first bytes of an .espdl
FLOAT_ROUNDING = 2.0**-20  # of the largest element: how far another order of float32 operations may lead
Array = npt.NDArray[Any]
MAX_BYTES = 1 << 31


def quantize_as_vendor(path: str, data: bytes, files: Sequence[str]) -> Quantized:
    """Returns the quantized ONNX that these files and the float ONNX give. Raises BadFileError, UsageError."""
    from qverify.vendor_quantization import write_quantized

    contents = dict[str, bytes]()
    for file in files:
        name = os.path.basename(file)
        if name in contents:
            raise UsageError(f"{WHERE} {file}: two files are named {name}")
        contents[name] = read_regular(file, MAX_BYTES, follow=True)
    return write_quantized(data, contents)


def states_itself(path: str) -> bool:
    """Returns whether a file is an .espdl, which states its own quantization; False if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(ESPDL)) == ESPDL
    except OSError:
        return False


def espdl_files(path: str) -> tuple[str, ...]:
    """Returns an .espdl and the NAME.json beside it, which names the chip, if there is one."""
    beside = os.path.splitext(path)[0] + ".json"
    return (path, beside) if os.path.isfile(beside) else (path,)


def compare_with_tests(
    graph: Graph, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> tuple[list[str], list[str]]:
    """Returns notes and caveats about the outputs with which a toolkit lets the chip test itself: whether the simulator gives
    them from the inputs of that test. Raises BadFileError for a test of other inputs or shapes."""
    specs = {name: graph.spec(name) for name in graph.inputs}
    wanted = {name: (spec.dtype, spec.shape) for name, spec in specs.items()}
    if wanted != {name: (str(value.dtype), value.shape) for name, value in inputs.items()}:
        raise BadFileError(
            f"the file's own test has the inputs {', '.join(inputs)}; its network has {', '.join(wanted)}"
        )
    given = [PreparedInput(s, s.aligned_bytes(inputs[n]), "the file's own test") for n, s in specs.items()]
    computed = Simulator(graph).run(PreparedInputs(tuple(given)), digests=False).tensors
    absent = [n for n in outputs if n not in computed]
    lines = [_compare_test(n, computed[n], value) for n, value in outputs.items() if n not in absent]
    lines += [(f"the file's own test has {n}, which its network does not give", False) for n in absent]
    return [text for text, equal in lines if equal], [text for text, equal in lines if not equal]


def _compare_test(name: str, got: Array, wanted: Array) -> tuple[str, bool]:
    """Returns a line on one output, and whether it is right: integers must be equal, floats within FLOAT_ROUNDING."""
    if got.shape != wanted.shape:
        raise BadFileError(
            f"the file's own test has {name} as {list(wanted.shape)}; its network gives {list(got.shape)}"
        )
    apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    limit = FLOAT_ROUNDING * float(np.abs(wanted).max()) if wanted.dtype.kind == "f" else 0.0
    differing = int(np.count_nonzero(~(apart <= limit)))
    if differing:
        return (
            f"the file's own test: the simulator gives {differing} of {apart.size} elements of {name} otherwise, by up to {apart.max():g}",
            False,
        )
    return f"the file's own test: the simulator gives all {apart.size} elements of {name}", True
