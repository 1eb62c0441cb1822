"""The table of options is complete, and what is made of it is up to date."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest
from qverify.cli.command_modules import load_command
from qverify.options.as_click import as_click
from qverify.options.commands import COMMANDS, keywords

from scripts.documents import keywords as written_types

ROOT = Path(__file__).resolve().parents[2]


def command_of(name: str) -> click.Command:
    """Returns the command of a list of the table: verify, or inputs_diff for `inputs diff`."""
    group, _, inner = name.partition("_")
    command = load_command(group)
    return command.commands[inner] if isinstance(command, click.Group) else command


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_options_of_the_table_and_no_other(name: str) -> None:
    """In this order, with these defaults. An option that is declared elsewhere is missing in Python, suites and pages."""
    declared = [as_click(option) for option in COMMANDS[name]]
    shown = [(p.name, p.opts, p.secondary_opts, p.default, p.multiple) for p in declared if isinstance(p, click.Option)]
    options = [p for p in command_of(name).params if isinstance(p, click.Option)]
    assert [(p.name, p.opts, p.secondary_opts, p.default, p.multiple) for p in options] == shown
    assert [p.name for p in command_of(name).params] == [p.name for p in declared]


@pytest.mark.parametrize("name", COMMANDS)
def test_names_and_keywords_are_of_one_option(name: str) -> None:
    options = COMMANDS[name]
    assert len({option.name for option in options}) == len(options)
    assert len(keywords(name)) == sum("api" in option.places for option in options)
    assert all(option.help or option.is_argument or option.required for option in options)


def test_only_the_commands_of_the_command_line_declare_options_of_their_own() -> None:
    """Modules of commands that the table lists use no click.option, so that a new option cannot be declared there."""
    cli = ROOT / "verifier" / "qverify" / "cli"
    modules = {f"commands/{name.partition('_')[0]}" for name in COMMANDS} - {"commands/inputs", "commands/outputs"}
    for module in (*modules, "inputs_diff", "outputs_diff"):
        calls = [node for node in ast.walk(ast.parse((cli / f"{module}.py").read_text())) if isinstance(node, ast.Call)]
        assert not [c for c in calls if ast.unparse(c.func) in ("click.option", "click.argument", "click.Option")], (
            module
        )


def test_the_types_that_editors_see_are_up_to_date() -> None:
    """`scripts/docs_output CONTRIBUTING.md` writes them."""
    for path, text in written_types.every().items():
        assert path.read_text() == text
