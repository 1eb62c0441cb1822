"""Writes the page of operators: which are compiled, to which op of model.bin, and which are not. From the compiler's pages
and the schemas and kernels of the installed onnx and onnxruntime."""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema, get_all_opkernel_def
from qverify.compiler import lowerings
from qverify.compiler.attributes import BECOME_CONSTANTS
from qverify.onnx_model.decompose import FOLDER
from qverify.onnx_model.random_operators import RANDOM
from qverify.pages import load_pages

from scripts.documents.blocks import ROOT

PATH = ROOT / "docs" / "reference" / "operators.md"
OLDEST, NEWEST = 10, 28  # opsets
MICROSOFT = "com.microsoft"
Key = tuple[str, str]  # domain and type
FOLDED = BECOME_CONSTANTS | {"Constant"}
LOOPS = ("Loop", "Scan")
SEQUENCES = (
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "SplitToSequence"),
)
ELSEWHERE = {  # types that other code than a page writes as other operators
    "CastLike": "cast",
    "DequantizeLinear": "dequantize",
    "DynamicQuantizeMatMul": "dynamic_quantize, matmul_integer_scaled",
    "QuantizeLinear": "quantize",
}


def every() -> dict[Path, str]:
    """Returns the current text of the page, by path."""
    return {PATH: page()}


def ops() -> dict[str, list[str]]:
    """Returns the stems of the ops that each ONNX type is compiled to."""
    found: dict[str, list[str]] = {kind: [stem] for kind, stem in ELSEWHERE.items()}
    for module in load_pages(lowerings.__name__, ()):
        stem = module.__name__.rpartition(".")[2]
        for kind in sorted({*getattr(module, "ONNX_TYPES", {}), *getattr(module, "OPERATORS", {})}):
            if stem not in found.setdefault(kind, []):
                found[kind].append(stem)
    return found


def integers_too() -> dict[str, tuple[str, ...]]:
    """Returns the integer types that an ONNX type of floats is also compiled for."""
    return {k: v for m in load_pages(lowerings.__name__, ()) for k, v in getattr(m, "INTEGERS_TOO", {}).items() if v}


def written_out() -> set[Key]:
    """Returns the operators of the pages of decompositions."""
    return {key for module in load_pages(FOLDER, ("REPLACED",)) for key in module.REPLACED}


@cache
def schemas() -> dict[Key, bool]:
    """Returns the operators of these opsets, ONNX's and onnxruntime's, and whether onnxruntime has a kernel for a CPU, or
    ONNX a definition by other operators."""
    kernels = {(k.domain, k.op_name) for k in get_all_opkernel_def() if k.provider == "CPUExecutionProvider"}
    known: dict[Key, bool] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NEWEST:
            newer = _newest(schema.name)
            defined = newer.has_function or newer.has_context_dependent_function
            if not newer.deprecated:
                known["", schema.name] = ("", schema.name) in kernels or defined
    for schema in get_all_operator_schema():
        key = (schema.domain, schema.name)
        if schema.domain == MICROSOFT or key == ("", "SimplifiedLayerNormalization"):
            known[key] = key in kernels
    return known


def _newest(kind: str) -> Any:
    """Returns ONNX's schema of the newest of these opsets."""
    return onnx.defs.get_schema(kind, NEWEST, "")


def compiled() -> dict[Key, str]:
    """Returns the operators that are compiled, each with what it becomes."""
    stems, decomposed, integers = ops(), written_out(), integers_too()
    table: dict[Key, str] = {}
    for key in schemas():
        kind = key[1]
        if kind in stems and (key[0] == "" or ("", kind) not in schemas() or _microsoft_twin(kind)):
            table[key] = ", ".join(stems[kind])
            if kind in integers and key[0] == "":
                table[key] += f"; also on {', '.join(integers[kind])}"
        elif key in decomposed or key == ("", "SwiGLU"):  # written by onnx_model.opsets
            table[key] = "other operators"
        elif key[0] == "" and kind in FOLDED:
            table[key] = "a constant, if its inputs are constants or shapes"
        elif key[0] == "" and kind in LOOPS:
            table[key] = "other operators, if constants and shapes determine the number of steps"
        elif key[0] == "" and kind in SEQUENCES:
            table[key] = "other operators, if constants and shapes determine the elements of the sequence"
    return table


def _microsoft_twin(kind: str) -> bool:
    """Returns whether onnxruntime's operator of the name of an ONNX operator is compiled as that is."""
    return kind in ("DequantizeLinear", "GatherND", "Gelu", "Pad", "QLinearConv", "QuantizeLinear", "Trilu")


def on_the_host() -> list[Key]:
    """Returns the operators without a lowering that onnxruntime runs."""
    done = compiled()
    return [key for key, runs in schemas().items() if runs and key not in done and key[1] not in RANDOM]


def page() -> str:
    """Returns the whole page."""
    table, left = compiled(), on_the_host()
    lines = [
        "# Operators",
        "",
        f"Written by `scripts/docs_output` from the compiler's tables, the schemas of onnx {onnx.__version__} (opsets {OLDEST} to {NEWEST}) and the kernels of onnxruntime {onnxruntime.__version__}. A test compares it.",
        "",
        "An operator of these tables is compiled in the forms that onnxruntime computes, but for those that [Limits](limits.md) names. `qverify compile FILE --list` names everything in a file that is not compiled.",
        "",
    ]
    for domain, title in (("", "ONNX"), (MICROSOFT, "onnxruntime (com.microsoft)")):
        lines += [f"## {title}", "", "| operator | becomes |", "|---|---|"]
        lines += [f"| {kind} | {text} |" for (of, kind), text in sorted(table.items()) if of == domain]
        lines += [""]
    lines += [
        'The names are ops of model.bin ([NUMERICS.md](../../verifier/NUMERICS.md), section 2); "other operators" are those of [WRITTEN_OUT.md](../../verifier/WRITTEN_OUT.md).',
        "",
        "## Not compiled",
        "",
        "onnxruntime computes these on the host, which the verdict line states ([Limits](limits.md)):",
        "",
        *_names(left, "", "ONNX"),
        *_names(left, MICROSOFT, "onnxruntime (com.microsoft)"),
        "",
        f"Refused: operators that draw random numbers ({', '.join(sorted(RANDOM))}), and those for which onnxruntime has no kernel on a CPU, which it cannot run either.",
        "",
    ]
    return "\n".join(lines)


def _names(keys: list[Key], domain: str, title: str) -> list[str]:
    return textwrap.wrap(f"- {title}: {', '.join(sorted(kind for of, kind in keys if of == domain))}.", 100000)
