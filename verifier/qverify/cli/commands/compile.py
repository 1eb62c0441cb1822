"""Compiles a quantized ONNX (QDQ or QOperator) or a quantized .tflite to model.bin."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes_all

if TYPE_CHECKING:
    from qverify.compiler.compile_model import CompilerOptions
    from qverify.model_bin.graph import Graph
    from qverify.options.given import Given


MAX_REASONS = 8  # nodes computed on the host that are printed with the reason


@click.command(help=__doc__)
@takes_all("compile")
def command(given: Given) -> int:
    from qverify.cli.live_progress import progress_bars
    from qverify.compiler.check_units import CUT_OR_REPORT
    from qverify.compiler.forms_of_nodes import describe_forms
    from qverify.session.other_jobs.compile_file import compile_file
    from qverify.session.requests.models import compile_job

    job = compile_job(given)
    if job.output is None or given["only_list"]:
        return _list(job.model, replace(job.options, check=False, host=False), job.options.host)
    with progress_bars() as watch:
        compiled = compile_file(job, watch)
    for _, text in compiled.saturated[:MAX_REASONS]:
        say(f"saturated constant: {text}")
    if len(compiled.saturated) > MAX_REASONS:
        say(f"saturated constants: {len(compiled.saturated) - MAX_REASONS} more")
    if compiled.failed:
        say(f"check FAILED: {compiled.failed}. {job.output} is not written. {CUT_OR_REPORT}", err=True)
        return 1
    say_compiled(job.output, compiled.size_bytes, compiled.graph)
    if job.options.arithmetic is not None:
        say(describe_forms(compiled.graph, job.options.arithmetic))
    return 0


def _list(path: str, options: CompilerOptions, host: bool) -> int:
    """Prints all that keeps the model from being compiled and, if the host may compute nodes, which it would compute.
    Returns the exit status: 0 if nothing keeps it from being compiled, else 2."""
    import os

    from qverify.compiler.compile_model import compile_model
    from qverify.compiler.forms_of_nodes import describe_forms
    from qverify.errors import BlockedError, QVerifyError, UnsupportedError
    from qverify.model_bin.islands import describe_islands
    from qverify.onnx_model.load import read_model
    from qverify.session.other_jobs.compile_file import compile_tflite, is_tflite

    source, name = read_model(path), os.path.basename(path)
    try:
        if is_tflite(source):
            graph = compile_tflite(name, source, options).graph
        else:
            graph = compile_model(source, name, options).graph
    except BlockedError as error:
        say(f"{error.header}:")
        for line in error.lines:
            say(f"  {line}")
    except UnsupportedError as error:
        say(str(error))
    else:
        say(f"{path}: nothing keeps it from being compiled")
        if options.arithmetic is not None:
            say(describe_forms(graph, options.arithmetic))
        return 0
    with contextlib.suppress(QVerifyError):
        if host and not is_tflite(source):
            islands = compile_model(source, name, replace(options, host=True)).graph.islands
            say(f"without --no-host it is compiled: {describe_islands(islands)}")
    return 2


def say_compiled(output: str, size_bytes: int, graph: Graph) -> None:
    """Prints a summary of the model.bin, the nodes that the host computes, and the result of the check."""
    from qverify.model_bin.islands import list_reasons
    from qverify.plural import count

    without = [n for n in graph.nodes if not n.integer_reference]
    say(f"{output}: {size_bytes} bytes, {count(len(graph.nodes), 'node')}, rounding {graph.rounding}")
    for line in list_reasons(graph.islands, MAX_REASONS):
        say(line)
    if without:
        ops = ", ".join(sorted({n.op for n in without}))
        say(f"{count(len(without), 'node', 'has', 'have')} no integer reference: {ops}")
    if (result := graph.meta.get("check")) is not None:
        worst, skipped = result["worst_lsb"], len(result["not_checked"])
        checked = count(result["units"], "node")
        number = result.get("integers")
        how = "" if number is None else f", on integers {number}, since onnxruntime rejects random ones"
        click.echo(f"check against the original: {checked}, worst {worst:g} LSB, not checked {skipped}{how}")
