"""The systemd units and the Containerfile fit the command's options, each other, and the page that says how to use them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest
from qverify_farm.cli.serve import command as serve
from qverify_farm.cli.suite import command as suite
from qverify_farm.cli.worker import command as worker

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "farm/systemd").glob("*.service"))
PAGE = (ROOT / "docs/how-to/service.md").read_text()
COMMANDS: dict[str, click.Command] = {"serve": serve, "suite": suite, "worker": worker}
FOLDERS = {"StateDirectory": "/var/lib", "CacheDirectory": "/var/cache", "LogsDirectory": "/var/log"}


def settings_of(unit: Path) -> dict[str, list[str]]:
    """Returns the values of each key of a unit."""
    values: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            values.setdefault(key, []).append(value)
    return values


def environment_of(unit: Path) -> dict[str, str]:
    words = " ".join(settings_of(unit).get("Environment", [])).split()
    return dict(word.split("=", 1) for word in words)


def parse(words: list[str]) -> dict[str, object]:
    """Returns the parameters of a qverify command line. Raises click.UsageError for one that the command refuses."""
    command = COMMANDS[words[0]]
    context = command.make_context(words[0], words[1:])
    if not isinstance(command, click.Group) or command.invoke_without_command:
        assert not context.args
        return context.params
    name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    assert inner is not None
    return inner.make_context(name, rest, parent=context).params


def command_line_of(unit: Path) -> list[str]:
    program, *words = shlex.split(settings_of(unit)["ExecStart"][0])
    assert program == "/opt/qverify/bin/qverify"
    return [word.replace("${SCHEDULER}", "tls://lab1:8786") for word in words if word != "$SERVE_OPTIONS"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_gives_options_that_the_command_has(unit: Path) -> None:
    assert parse(command_line_of(unit))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_writes_into_its_own_folders_only(unit: Path) -> None:
    values, environment = settings_of(unit), environment_of(unit)
    own = [f"{base}/{values[key][0]}" for key, base in FOLDERS.items() if key in values]
    written = [
        environment[name] for name in ("QVERIFY_DATABASE", "QVERIFY_ARTIFACTS", "XDG_CACHE_HOME") if name in environment
    ]
    written += [word for word in command_line_of(unit) if word.startswith("/var/")]
    assert written
    for path in written:
        assert any(f"{path}/".startswith(f"{folder}/") for folder in own), path
    assert values["ProtectSystem"] == ["strict"] and values["ProtectHome"] == values["NoNewPrivileges"] == ["yes"]
    assert (
        values["StateDirectoryMode"] == values["CacheDirectoryMode"] == ["0700"]
    )  # systemd makes an existing folder 0755


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_stop_reaches_the_command_alone(unit: Path) -> None:
    """If the processes of the jobs got SIGTERM beside the command, it would take them for dead: three stops, and a job ended as
    INCONCLUSIVE."""
    assert settings_of(unit)["KillMode"] == ["mixed"]


def test_systemd_waits_until_the_service_has_ended_its_jobs() -> None:
    unit = ROOT / "farm/systemd/qverify-serve.service"
    stop_after = parse(command_line_of(unit))["stop_after"]
    assert isinstance(stop_after, float)
    assert float(settings_of(unit)["TimeoutStopSec"][0]) > 2 * stop_after  # requests, then jobs


def test_units_share_boards_but_not_databases() -> None:
    of = {unit.stem: environment_of(unit) for unit in UNITS}
    assert len({environment["XDG_CACHE_HOME"] for environment in of.values()}) == 1  # the locks of boards are in it
    assert len({environment["QVERIFY_BOARDS"] for environment in of.values()}) == 1
    for name in ("QVERIFY_DATABASE", "QVERIFY_ARTIFACTS"):
        assert of["qverify-serve"][name] != of["qverify-nightly"][name]


def test_variables_of_the_units_are_known() -> None:
    known = "".join(path.read_text() for folder in ("farm", "agents") for path in (ROOT / folder).rglob("*.py"))
    for unit in UNITS:
        for name in environment_of(unit):
            assert name == "SERVE_OPTIONS" or name in known, name


def test_the_page_makes_what_the_units_name() -> None:
    lab = re.search(r"^lab\(\).*", PAGE, re.MULTILINE)
    assert lab is not None
    environment = environment_of(ROOT / "farm/systemd/qverify-serve.service")
    for name in ("QVERIFY_DATABASE", "QVERIFY_ARTIFACTS"):
        assert f"{name}={environment[name]} " in lab[0]
    nightly = settings_of(ROOT / "farm/systemd/qverify-nightly.service")
    assert f"sudo install -d {nightly['WorkingDirectory'][0]}\n" in PAGE
    assert f"boards.toml {environment['QVERIFY_BOARDS']}\n" in PAGE
    assert "useradd --system --home-dir /var/lib/qverify qverify\n" in PAGE  # a home that the units can read: ~/.ssh
    for copied in re.findall(r"farm/systemd/\S+\.(?:service|timer)", PAGE):
        assert (ROOT / copied).is_file(), copied


@pytest.mark.parametrize("options", re.findall(r"^SERVE_OPTIONS=(.*)", PAGE, re.MULTILINE))
def test_the_service_has_the_options_of_the_page(options: str) -> None:
    assert parse([*command_line_of(ROOT / "farm/systemd/qverify-serve.service"), *options.split()])


def test_the_container_starts_the_service() -> None:
    lines = (ROOT / "farm/Containerfile").read_text()
    entry = re.search(r"^ENTRYPOINT (.*)", lines, re.MULTILINE)
    assert entry is not None
    program, *words = json.loads(entry[1])
    assert program == "qverify" and parse(words)["behind_proxy"]
    default = re.search(r"^ARG BASE=(\S+)\nFROM \$\{BASE\}\n", lines, re.MULTILINE)
    assert default is not None and default[1].startswith("docker.io/")  # podman alone looks nowhere for a short name
