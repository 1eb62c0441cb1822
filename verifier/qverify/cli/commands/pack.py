"""Makes a bundle for a board without a network: agent, model.bin, inputs and a run.sh for any POSIX shell; `qverify
replay` judges what it writes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.options.commands import INPUTS

if TYPE_CHECKING:
    from qverify.options.given import Given


@click.command(help=__doc__)
@click.option("-m", "--model", "models", required=True, help="comma list: quant.onnx, model.bin")
@click.option("-o", "--output", required=True, help="a folder that does not exist, or NAME.tar, NAME.tar.gz")
@click.option("--arch", "machines", multiple=True, help="the board's machine (uname -m); all when not given")
@click.option("--no-onnx", is_flag=True, help="leave the quantized ONNX out: replay then needs it with -m")
@takes(*INPUTS)
def command(models: str, output: str, machines: tuple[str, ...], no_onnx: bool, given: Given) -> int:
    from qverify.plural import count
    from qverify.session.offline.pack_bundle import pack
    from qverify.session.requests.inputs import read_inputs

    machine_names = tuple(m for option in machines for m in option.split(",") if m)
    bundle = pack([p for p in models.split(",") if p], output, read_inputs(given), machine_names, not no_onnx)
    say(f"{bundle.path}: {count(bundle.files, 'file')}, {bundle.bytes} bytes, for {', '.join(bundle.runtimes)}")
    unpack = "unpack it there; " if bundle.tar else ""
    on_host = "here: unpack it, and qverify replay FOLDER" if bundle.tar else f"here: qverify replay {bundle.path}"
    say(f"on the board: {unpack}sh run.sh (writes up to {bundle.dump_bytes} bytes to dump); then {on_host}")
    return 0
