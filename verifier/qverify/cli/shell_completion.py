"""Completes the command line in bash, zsh and fish, by click: commands, options, models, boards of the inventory,
files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from qverify.cli.command_modules import load_command

VARIABLE = "_QVERIFY_COMPLETE"  # the shell's script sets it to, for example, bash_complete
MODEL_OPTIONS, BOARD_OPTIONS = ("-m", "--model"), ("-b", "--board")
MODEL_SUFFIXES = (".onnx", ".bin", ".tflite")
FIXED_ADDRESSES = ("local", *(f"qemu-user:{m}" for m in ("aarch64", "armv7", "riscv64", "s390x")), "qemu:arm64")


class Commands(click.Group):
    """The group of all commands. Each is imported only when it is needed. names: their names and short helps."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__("qverify")
        self.names = names

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.names:
            return None
        command = load_command(cmd_name)
        command.short_help = self.names[cmd_name]
        return command


class _Completer(ShellComplete):
    """Completes what click cannot: models, boards, and the main job without its name (words that begin with an
    option)."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        if args and args[-1] in MODEL_OPTIONS:
            return [CompletionItem(path) for path in model_files(incomplete)]
        if args and args[-1] in BOARD_OPTIONS:
            return [CompletionItem(name) for name in board_names() if name.startswith(incomplete)]
        if (args or [incomplete])[0].startswith("-"):
            args = ["verify", *args]
        return super().get_completions(args, incomplete)


class Bash(_Completer, BashComplete):
    pass


class Zsh(_Completer, ZshComplete):
    pass


class Fish(_Completer, FishComplete):
    pass


SHELLS: dict[str, type[_Completer]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def script(shell: str, names: dict[str, str]) -> str:
    """Returns the script that a shell reads once to complete `qverify`. names: names and short helps of the
    commands."""
    return SHELLS[shell](Commands(names), {}, "qverify", VARIABLE).source()


def complete(names: dict[str, str]) -> int:
    """Prints the completions that the shell requests by its environment variables. Returns the exit status: 0, or 2 for
    a request of another form."""
    shell, _, request = os.environ[VARIABLE].partition("_")
    if shell not in SHELLS or request != "complete" or "COMP_WORDS" not in os.environ:
        return 2
    click.echo(SHELLS[shell](Commands(names), {}, "qverify", VARIABLE).complete())
    return 0


def model_files(typed: str) -> list[str]:
    """Returns the completions of a comma list of models: files and folders that continue its last path."""
    before, comma, last = typed.rpartition(",")
    folder, start = os.path.split(last)
    completions = []
    for entry in _entries(folder or "."):
        if entry.name.startswith(start) and (entry.is_dir() or entry.name.endswith(MODEL_SUFFIXES)):
            end = os.sep if entry.is_dir() else ""
            completions.append(before + comma + os.path.join(folder, entry.name) + end)
    return sorted(completions)


def _entries(folder: str) -> Sequence[Any]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def board_names() -> list[str]:
    """Returns the names in the inventory, and the addresses that need no further parts."""
    from qverify_agents.errors import LinkError
    from qverify_agents.inventory import read_boards

    try:
        return [*read_boards(), *FIXED_ADDRESSES]
    except LinkError:  # the inventory cannot be read; the command itself reports why
        return list(FIXED_ADDRESSES)
