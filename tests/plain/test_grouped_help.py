"""The help of the commands with many options: complete, in groups, and quick because nothing heavy is imported."""

import subprocess
import sys

import click
import pytest
from qverify.cli.command_modules import load_command
from qverify.cli.grouped_help import GroupedCommand
from qverify.options.commands import grouped

GROUPED = ["verify", "triage", "compare"]


@pytest.mark.parametrize("name", GROUPED)
def test_every_option_stands_in_one_group(name):
    command = load_command(name)
    assert isinstance(command, GroupedCommand)
    words = [*(word for group in grouped().values() for word in group), "--help"]
    assert len(set(words)) == len(words)
    options = [p for p in command.get_params(click.Context(command)) if isinstance(p, click.Option) and not p.hidden]
    for option in options:
        assert set(option.opts) & set(words), option.opts


@pytest.mark.parametrize("name", GROUPED)
def test_the_examples_are_accepted_and_fit_80_columns(name):
    command = load_command(name)
    text = command.get_help(click.Context(command, info_name=f"qverify {name}", max_content_width=80))
    known = {word for p in command.params for word in p.opts}
    examples = [line for line in text.splitlines() if line.startswith("  qverify ")]
    assert len(examples) >= 2
    for line in examples:
        assert len(line) <= 80
        assert {word for word in line.split() if word.startswith("-")} <= known


@pytest.mark.parametrize("name", ["verify", "triage", "identify", "quantize"])
def test_help_imports_neither_arrays_nor_models(name):
    code = (
        f"import sys; from qverify.cli.main import main; main([{name!r}, '--help']);"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'numpy', 'onnx', 'onnxruntime', 'google'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
