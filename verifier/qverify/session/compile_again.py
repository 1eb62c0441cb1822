"""Compiles the quantized ONNX of -m, as model.bin was compiled if there is one, and checks that both belong together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from qverify.compiler.check_units import CANCELLING, CUT_OR_REPORT
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.errors import BadFileError, OwnInputsError
from qverify.model_bin.graph import Graph
from qverify.session.model_claims import differing_parameters, find_contradiction
from qverify.session.model_file import ModelFile
from qverify.tensors.free_memory import return_free_memory

if TYPE_CHECKING:
    from qverify.arithmetic.forms import FormsOfOps
    from qverify.report.learned import Arithmetic


def compile_again(
    quantized: ModelFile,
    graph: Graph | None,
    shapes: dict[str, tuple[int, ...]] | None,
    allow_other: bool,
    host: bool,
    arithmetic: Arithmetic | None,
) -> tuple[CompiledModel, list[str]]:
    """Compiles the quantized ONNX again with the options stored in model.bin. Returns the result, and the caveats that
    the verdict must state. The hash of the integer ONNX shows whether the two files belong together; raises
    BadFileError if they do not."""
    stored = graph.meta.get("options", {}) if graph is not None else {}
    path = quantized.path
    options = CompilerOptions.restored(stored, os.path.dirname(os.path.abspath(path)), shapes or {})
    was_checked = isinstance(graph, Graph) and "check" in graph.meta
    options = replace(options, check=not was_checked, host=host if graph is None else options.host)
    if graph is None and arithmetic is not None:
        options = replace(options, arithmetic=forms_of(arithmetic))
    digest = quantized.digest.result()
    compiled, caveats = _compile_checked(quantized, options, digest)
    check_compiled(
        compiled.graph if not was_checked or graph is None else graph, os.path.basename(path), compiled.saturated
    )
    if graph is None:
        return compiled, caveats
    if compiled.graph.meta["integer_sha256"] == graph.meta.get("integer_sha256"):
        if why := find_contradiction(graph, compiled.graph):
            raise BadFileError(
                f"model.bin differs from what {os.path.basename(path)} compiles to: {why}. Compile it again with qverify compile"
            )
        differing = differing_parameters(graph, compiled.graph)
        compiled.adopt(graph)
        return_free_memory()
        return compiled, [*caveats, *([_describe_differing_parameters(differing)] if differing else [])]
    if graph.meta.get("source_sha256") == compiled.graph.meta["source_sha256"]:
        shapes_of = stored.get("shapes") or "those of the file"
        raise BadFileError(
            f"model.bin was compiled from {os.path.basename(path)} with other shapes or by another version of qverify; "
            f"its shapes are {shapes_of}. Compile it again, or give the same --shape"
        )
    message = f"model.bin was compiled from another ONNX ({graph.meta.get('source_name', 'unknown')}) than {os.path.basename(path)}"
    if not allow_other:
        raise BadFileError(f"{message}; compile it again with qverify compile, or give --allow-other-model")
    if graph.islands or compiled.graph.islands:
        raise BadFileError(
            f"{message}, and nodes are computed on the host, which needs the right ONNX; it cannot be verified"
        )
    if lost := [n for n in compiled.graph.outputs if n not in graph.outputs]:
        raise BadFileError(f"{message}, and has no output {lost[0]}, so it cannot be verified")
    return compiled, [*caveats, message]


def _describe_differing_parameters(names: list[str]) -> str:
    """Returns the caveat about constants and words of model.bin that differ from what its ONNX compiles to."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"parameters of model.bin differ from what its ONNX compiles to ({', '.join(names[:3])}{more}), judged only as far as "
        "these inputs use them"
    )


def _compile_checked(quantized: ModelFile, options: CompilerOptions, digest: str) -> tuple[CompiledModel, list[str]]:
    """Compiles the quantized ONNX. If onnxruntime rejects the inputs that the compiler's check draws, compiles it
    without the check and returns a caveat: the user's own inputs may be fine."""
    name = os.path.basename(quantized.path)
    try:
        return compile_model(quantized.data, name, options, None, quantized.take(), digest), []
    except OwnInputsError:
        compiled = compile_model(quantized.data, name, replace(options, check=False), None, None, digest)
    return compiled, [f"{name} was not checked when it was compiled: onnxruntime rejects random inputs"]


def check_compiled(graph: Graph, name: str, saturated: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Returns the caveats about the compiler's check against the original. Raises BadFileError if that check failed.
    saturated: constants that the exporter saturated, which may be why."""
    result = graph.meta.get("check")
    if result is None:
        return ["model.bin was never checked against its ONNX (--no-check)"]
    over = result.get("over") if isinstance(result, dict) and result.get("units") else None
    if not isinstance(over, list) or over:
        beyond = (
            f"beyond 1 LSB: {', '.join(map(str, over[:5]))}" if isinstance(over, list) else "no node could be checked"
        )
        beyond += f"; among them {CANCELLING}" if isinstance(result, dict) and result.get("cancelling") else ""
        mend = "; ".join(text for _, text in saturated[:2])
        raise BadFileError(
            f"{name}: the compiler's check against the original failed ({beyond}), so it cannot be verified. {mend or CUT_OR_REPORT}"
        )
    return []


def forms_of(arithmetic: Arithmetic) -> FormsOfOps:
    """Returns the forms that an arithmetic states; what reads such files is imported only for them."""
    from qverify.compare.identify.arithmetic_file import forms_of_ops

    return forms_of_ops(arithmetic)
