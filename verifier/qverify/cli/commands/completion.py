"""Prints the script that completes qverify's commands, options, models and boards. For bash, in ~/.bashrc:
eval "$(qverify completion bash)"; for zsh the same with zsh, in ~/.zshrc; for fish: qverify completion fish >
~/.config/fish/completions/qverify.fish."""

from __future__ import annotations

import click

from qverify.cli.shell_completion import SHELLS, script


@click.command(help=__doc__)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> int:
    from qverify.cli.main import COMMANDS

    click.echo(script(shell, COMMANDS))
    return 0
