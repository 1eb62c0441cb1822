"""Completion of the command line in bash, zsh and fish, by click: commands, options, models, boards of the inventory,
files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from qverify.cli.command_modules import load_command

VARIABLE = "_QVERIFY_COMPLETE"  # the shell's script sets it to, for example, bash_complete
MODELS, BOARDS = ("-m", "--model"), ("-b", "--board")
SUFFIXES = (".onnx", ".bin", ".tflite")
KINDS = ("local", "qemu-user:aarch64", "qemu-user:armv7", "qemu-user:riscv64", "qemu-user:s390x", "qemu:arm64")


class Commands(click.Group):
    """All commands, each imported when it is asked for; words that start with an option are the main job's."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__("qverify")
        self.names = names

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.names:
            return None
        found = load_command(cmd_name)
        found.short_help = self.names[cmd_name]
        return found


class _Words(ShellComplete):
    """Adds what click does not know: models, boards and the main job without its name."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        if args and args[-1] in MODELS:
            return [CompletionItem(path) for path in model_files(incomplete)]
        if args and args[-1] in BOARDS:
            return [CompletionItem(name) for name in board_names() if name.startswith(incomplete)]
        if (args or [incomplete])[0].startswith("-"):
            args = ["verify", *args]
        return super().get_completions(args, incomplete)


class Bash(_Words, BashComplete):
    pass


class Zsh(_Words, ZshComplete):
    pass


class Fish(_Words, FishComplete):
    pass


SHELLS: dict[str, type[_Words]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def script(shell: str, names: dict[str, str]) -> str:
    """Returns the script that a shell reads once to complete `qverify`. names: of the commands."""
    return SHELLS[shell](Commands(names), {}, "qverify", VARIABLE).source()


def complete(names: dict[str, str]) -> int:
    """Prints what the shell asked for in its variables, and returns the exit status: 0, or 2 for another request."""
    shell, _, what = os.environ[VARIABLE].partition("_")
    if shell not in SHELLS or what != "complete" or "COMP_WORDS" not in os.environ:
        return 2
    click.echo(SHELLS[shell](Commands(names), {}, "qverify", VARIABLE).complete())
    return 0


def model_files(typed: str) -> list[str]:
    """Returns the models and folders that continue a comma list of files."""
    before, comma, last = typed.rpartition(",")
    folder, start = os.path.split(last)
    found = []
    for entry in _entries(folder or "."):
        if entry.name.startswith(start) and (entry.is_dir() or entry.name.endswith(SUFFIXES)):
            end = os.sep if entry.is_dir() else ""
            found.append(before + comma + os.path.join(folder, entry.name) + end)
    return sorted(found)


def _entries(folder: str) -> Sequence[Any]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def board_names() -> list[str]:
    """Returns the names in the inventory, and the addresses that need no further words."""
    from qverify_agents.errors import LinkError
    from qverify_agents.inventory import read_boards

    try:
        return [*read_boards(), *KINDS]
    except LinkError:  # a broken inventory; the command itself says what is wrong with it
        return list(KINDS)
