"""Writes the C sources of qverify's agent for a microcontroller without an operating system: only the ops of the given
models, the models in flash, and a Makefile for the machines of qemu-mcu:."""

from __future__ import annotations

import click

from qverify.cli.say_line import say


@click.command(help=__doc__)
@click.argument("folder")
@click.option("--model", "models", multiple=True, metavar="M.bin", help="a compiled model; may be repeated")
@click.option("--every-op", is_flag=True, help="all ops, not only those of the models")
@click.option("--no-flash", is_flag=True, help="leave the models out of the program; the host then sends them")
def command(folder: str, models: tuple[str, ...], every_op: bool, no_flash: bool) -> int:
    from qverify.plural import count
    from qverify.session.other_jobs.mcu_sources import write_mcu_sources

    written = write_mcu_sources(folder, models, every_op, not no_flash)
    ops = "every op" if every_op else ", ".join(written.ops)
    say(f"{folder}: {count(written.files, 'C file')}, {ops}; {written.flash_bytes} bytes of models in flash")
    say(f"build: make -C {folder} BOARD=an386; then -b 'qemu-mcu:an386?firmware={folder}/agent-an386.elf'")
    say(f"your own board: compile the Makefile's SOURCES and write the functions of {folder}/mcu/hal.h")
    return 0
