"""Writes C sources for a microcontroller without an operating system: qverify's agent with only the ops of the given
models and the models in flash, or an example firmware with qv_hook; each with a Makefile for the machines of qemu-mcu:."""

from __future__ import annotations

import click

from qverify.cli.say_line import say


@click.command(help=__doc__)
@click.argument("folder")
@click.option("--model", "models", multiple=True, metavar="M.bin", help="a compiled model; may be repeated")
@click.option("--every-op", is_flag=True, help="all ops, not only those of the models")
@click.option("--no-flash", is_flag=True, help="leave the models out of the program; the host then sends them")
@click.option(
    "--firmware", metavar="Q.onnx", help="instead of the agent: an example firmware with qv_hook that runs this network"
)
@click.option(
    "--fault", default="", metavar="TENSOR", help="with --firmware: the layer of this tensor gets a wrong bias"
)
def command(
    folder: str, models: tuple[str, ...], every_op: bool, no_flash: bool, firmware: str | None, fault: str
) -> int:
    from qverify.plural import count
    from qverify.session.other_jobs.mcu_sources import write_example_firmware, write_mcu_sources

    if firmware is not None and (models or every_op or no_flash):
        raise click.UsageError("--firmware writes no agent; leave --model, --every-op and --no-flash out")
    if fault and firmware is None:
        raise click.UsageError("--fault is for --firmware")
    if firmware is not None:
        files = write_example_firmware(folder, firmware, fault)
        say(f"{folder}: {count(files, 'C file')}: qv_hook, an inference engine, the network of {firmware}")
        _say_next(folder, "firmware")
        return 0
    written = write_mcu_sources(folder, models, every_op, not no_flash)
    ops = "every op" if every_op else ", ".join(written.ops)
    say(f"{folder}: {count(written.files, 'C file')}: {ops}; {written.flash_bytes} bytes of models in flash")
    _say_next(folder, "agent")
    return 0


def _say_next(folder: str, program: str) -> None:
    say(f"build: make -C {folder} BOARD=an386; then -b 'qemu-mcu:an386?firmware={folder}/{program}-an386.elf'")
    say(f"your own board: compile the SOURCES of its Makefile, and write the functions of {folder}/mcu/hal.h")
