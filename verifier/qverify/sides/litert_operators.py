"""Opens a .tflite that LiteRT runs, whatever its operators: a first run on random inputs gives the types and shapes of all
tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qverify.errors import BadFileError, UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.plural import count
from qverify.sides.engine_child import EngineEnded
from qverify.sides.litert_engine import DEFAULT_KERNELS, LiteRtEngine, RefusedFileError
from qverify.sides.operator_graph import COMPARED, OperatorGraph, operator_graph
from qverify.tensors.recording import Array
from qverify.tflite_model.interpreter import CALLING
from qverify.tflite_model.operators_with_weights import has_read_blocks
from qverify.tflite_model.read_tflite import TfliteModel, TfliteTensor

KERNELS = ("reference", "optimized")  # of the reference, in the order in which they are tried
DRAWS = 3  # random inputs on which two files must give the same
BLOCK_KERNELS = "xnnpack"  # of a converted file with weights that have a scale for each block
BLOCKS = "the reference is XNNPACK: LiteRT's reference kernels do not read the scales of blocks of weights"


def kernels_of(model: TfliteModel) -> str:
    """Returns LiteRT's kernels that are the reference of a converted file."""
    return BLOCK_KERNELS if any(has_read_blocks(model, o) for o in model.operators) else KERNELS[0]


@dataclass(frozen=True, slots=True)
class LiteRtOperators:
    """An opened file. opened: its graph. kernels: those of the reference, of KERNELS. unstable: tensors that two runs on the same
    inputs gave other bytes of. notes: lines on what is the reference, and on what is not compared. undescribed: why tensors are not as the file
    states them, by index."""

    opened: OperatorGraph
    kernels: str
    unstable: frozenset[str]
    notes: tuple[str, ...]
    undescribed: Mapping[int, str]


def open_operators(model: TfliteModel, data: bytes) -> LiteRtOperators:
    """Returns the opened file. data: its bytes. Raises BadFileError for a file that LiteRT refuses, or on which it fails,
    UnsupportedError for one that gives nothing to compare."""
    engine, inputs = LiteRtEngine(model.file), _random_values(model)
    computed = [i for i in model.made_by if model.tensors[i].dtype in COMPARED]  # LiteRT crashes on others
    notes = list[str]()
    for kernels in KERNELS:
        try:
            first, second = (engine.describe(data, model.file, inputs, computed, kernels) for _ in range(2))
            break
        except RefusedFileError as error:
            if kernels == KERNELS[-1]:
                raise
            notes = [DEFAULT_KERNELS.format(error)] if kernels == KERNELS[0] else []
        except EngineEnded as error:
            raise BadFileError(f"{model.file}: LiteRT cannot run it: {error}") from error
    opened = operator_graph(model, {i: (dtype, shape) for i, (dtype, shape, _) in first.items()})
    unstable = frozenset(n for n, entry in opened.tensors.items() if first.get(i := entry["tfl"]) != second.get(i))
    if not opened.graph.outputs:
        raise UnsupportedError(f"{model.file}: none of its outputs is computed and of a type that can be compared")
    if opened.left_out:
        kinds = ", ".join(sorted({o.kind for o in opened.left_out}))
        notes.append(f"{count(len(opened.left_out), 'operator')} without a tensor to compare: {kinds}")
    if model.subgraphs > 1 and (calling := [str(o) for o in model.operators if o.kind in CALLING]):
        notes.append(f"tensors inside {', '.join(calling[:3])} are not compared: each is one node")
    undescribed = {i: why for i in computed if (why := _describe_misfit(model.tensors[i], first.get(i)))}
    return LiteRtOperators(opened, kernels, unstable, tuple(notes), undescribed)


def _random_values(model: TfliteModel, seed: int = 0) -> dict[int, Array]:
    """Returns random inputs by index."""
    ends = operator_graph(model, {}).graph
    return dict(zip(model.inputs, random_inputs(ends, seed).arrays().values(), strict=True))


def same_outputs(model: TfliteModel, data: bytes, other: TfliteModel, other_data: bytes) -> bool:
    """Returns whether LiteRT gives the same bytes of all outputs of two files with the same inputs, on random ones. Raises
    BadFileError if it fails on one."""
    engine = LiteRtEngine(model.file)
    for seed in range(DRAWS):
        inputs, found = _random_values(model, seed), []
        for one, its_data in ((model, data), (other, other_data)):
            feed = dict(zip(one.inputs, inputs.values(), strict=True))
            try:
                described = engine.describe(its_data, one.file, feed, [*one.outputs], KERNELS[0])
            except EngineEnded as error:
                raise BadFileError(f"{one.file}: LiteRT cannot run it: {error}") from error
            found.append([described.get(i) for i in one.outputs])
        if found[0] != found[1] or None in found[0]:
            return False
    return True


def why_not_reference(model: TfliteModel, data: bytes) -> str:
    """Returns why LiteRT's reference kernels refuse the file, "" if they do not."""
    try:
        LiteRtEngine(model.file).describe(data, model.file, _random_values(model), [], KERNELS[0])
    except RefusedFileError as error:
        return str(error)
    except (BadFileError, EngineEnded):
        return ""  # the run will say it
    return ""


def _describe_misfit(tensor: TfliteTensor, found: tuple[str, tuple[int, ...], str] | None) -> str:
    """Returns why a tensor is not what the file states in a run, "" if it is. found: its type, shape and digest there."""
    if found is None:
        return f"tensor {tensor.index} has no values after a run"
    dtype, shape, _ = found
    if shape != tensor.shape:
        return f"tensor {tensor.index} is {list(shape)} in a run, and the file states {list(tensor.shape)}"
    return (
        ""
        if dtype == tensor.dtype
        else f"tensor {tensor.index} is {dtype} in a run, and the file states {tensor.dtype}"
    )
