"""Compiles a quantized ONNX (QDQ or QOperator) or a quantized .tflite to model.bin."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from qverify.cli.python_options import hand_over
from qverify.cli.reporting import require_writable
from qverify.cli.say_line import say

if TYPE_CHECKING:
    from qverify.compiler.compile_model import CompilerOptions
    from qverify.model_bin.graph import Graph


MAX_REASONS = 8  # nodes computed on the host that are printed with the reason


@click.command(help=__doc__)
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="model.bin to write")
@click.option(
    "--list", "only_list", is_flag=True, help="print all that keeps the model from being compiled, write nothing"
)
@click.option("--integer-onnx", type=click.Path(dir_okay=False), help="also write the integer ONNX")
@click.option(
    "--rounding",
    default="ref-exact",
    show_default=True,
    help="ref-exact tflite-single gemmlowp cmsis pow2-half-up pow2-half-away pow2-floor mul8 mul15 mul16 mul24 mul31",
)
@click.option(
    "--arithmetic",
    metavar="FILE",
    help="the forms of a board by op, which `qverify identify` learned: a TOML file, or the name of a shipped one",
)
@click.option("--align", default=1, show_default=True, help="pad the innermost dimension to a multiple of N elements")
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="dims of a dynamic input; may be repeated"
)
@click.option("--no-fuse", is_flag=True, help="keep Relu and Clip as separate nodes with their own dumps")
@click.option(
    "--strip-io-quant", is_flag=True, help="integer inputs and outputs: no quantize or dequantize at the ends"
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FORMAT[,KEY=VALUE...]",
    help="what the board is fed for this input, which model.bin converts to the network's: data=nv12,train=rgb,mean=128,scale=0.0078125; keys as in `qverify inputs prepare`; featuremap: quantized on the host",
)
@click.option("--description", metavar="FILE", help="TOML with [inputs.NAME] tables; --input overrides it")
@click.option(
    "--no-host",
    is_flag=True,
    help="refuse nodes that no kernel serves; without it the host computes them, and they are named as not verified",
)
@click.option("--check/--no-check", default=True, show_default=True, help="check every node against the original ONNX")
def command(
    model: str,
    output: str | None,
    only_list: bool,
    integer_onnx: str | None,
    rounding: str,
    arithmetic: str | None,
    align: int,
    shapes: tuple[str, ...],
    no_fuse: bool,
    strip_io_quant: bool,
    inputs: tuple[str, ...],
    description: str | None,
    no_host: bool,
    check: bool,
) -> int:
    import os

    from qverify.cli.live_progress import progress_bars
    from qverify.compiler.check_units import CUT_OR_REPORT
    from qverify.compiler.compile_model import CompilerOptions
    from qverify.compiler.forms_of_nodes import describe_forms
    from qverify.errors import UsageError
    from qverify.inputs.description_tables import parse_inputs, read_tables
    from qverify.session.models import parse_shapes
    from qverify.session.other_jobs.compile_file import CompileJob, compile_file
    from qverify.session.stated_arithmetics import open_forms

    if output is None and not only_list:
        raise UsageError("Missing option '-o' / '--output': where to write model.bin; --list writes nothing")
    _check_outputs(model, output, integer_onnx)
    options = CompilerOptions(
        rounding,
        align,
        check,
        not no_fuse,
        strip_io_quant,
        parse_shapes(shapes),
        os.path.dirname(os.path.abspath(model)),
        _merge(read_tables(description), parse_inputs(inputs)),
        not no_host,
        None if arithmetic is None else open_forms(arithmetic),
    )
    if output is None or only_list:
        return _list(model, replace(options, check=False, host=False), not no_host)
    job = CompileJob(model, output, integer_onnx, options)
    if hand_over(job):
        return 0
    with progress_bars() as watch:
        compiled = compile_file(job, watch)
    for _, text in compiled.saturated[:MAX_REASONS]:
        say(f"saturated constant: {text}")
    if len(compiled.saturated) > MAX_REASONS:
        say(f"saturated constants: {len(compiled.saturated) - MAX_REASONS} more")
    if compiled.failed:
        say(f"check FAILED: {compiled.failed}. {output} is not written. {CUT_OR_REPORT}", err=True)
        return 1
    say_compiled(output, compiled.size_bytes, compiled.graph)
    if options.arithmetic is not None:
        say(describe_forms(compiled.graph, options.arithmetic))
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


def _check_outputs(model: str, output: str | None, integer_onnx: str | None) -> None:
    """Raises UsageError if two of the files are the same, or a file could not be written."""
    import os

    from qverify.errors import UsageError

    for option, path in (("-o", output), ("--integer-onnx", integer_onnx)):
        if path is not None:
            require_writable(option, path)
    for path in filter(None, (output, integer_onnx)):
        if os.path.exists(path) and os.path.exists(model) and os.path.samefile(path, model):
            raise UsageError(f"output {path} is the model itself, which would be overwritten; give another file")
    if integer_onnx and output and os.path.realpath(integer_onnx) == os.path.realpath(output):
        raise UsageError(f"-o and --integer-onnx both name {output}; give two files")


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


def _merge(file: dict[str, dict[str, Any]], options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the tables of the TOML file, overridden key by key by those of --input."""
    return file | {name: {**file.get(name, {}), **table} for name, table in options.items()}
