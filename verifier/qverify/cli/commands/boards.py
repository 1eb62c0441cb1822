"""Manages boards: the inventory (boards.toml), emulated boards, places of labgrid, who uses a board, what is on it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from qverify_agents.printable import last_line, one_line

from qverify.cli.labgrid_commands import follow_console, release_stale
from qverify.cli.runner_commands import command as runner_command
from qverify.cli.say_line import say
from qverify.cli.takes import takes
from qverify.cli.view_options import screen
from qverify.options.commands import link_with

if TYPE_CHECKING:
    from qverify_agents.address import Address

    from qverify.options.given import Given

HEX = "[0-9a-f]" * 16
CLEAN = (  # removes only files of an agent's push and its store; a pattern without a match is its own text
    f"s=0; for f in @DIR@/bin/qvrt-*-{HEX} @DIR@/bin/.qvrt-*.part @DIR@/bin/.probe.* @DIR@/store/{HEX * 4} @DIR@/store/{HEX * 4}.part;"
    ' do [ ! -e "$f" ] || rm -f "$f" || s=3; done; rmdir @DIR@/bin @DIR@/store @DIR@ 2>/dev/null; exit $s'
)


@click.group(help=__doc__)
def command() -> None:
    pass


command.add_command(runner_command, "runner")
command.add_command(release_stale)


@command.command(help="List the inventory, and emulated boards that are up")
def list() -> int:
    from qverify_agents.emulation.image import KINDS
    from qverify_agents.emulation.machine import running
    from qverify_agents.inventory import QVRT, read_boards, read_broken_entries

    from qverify.renderers import board_table

    rows = [
        [
            b.name,
            b.uri,
            b.foreign if b.runner else f"{b.foreign} (not driven)" if b.foreign else QVRT,
            _join_tags(b.tags),
            b.file,
        ]
        for b in read_boards().values()
    ]
    up = [m for kind in KINDS if (m := running(kind)) is not None]
    rows += [
        [f"qemu:{m.architecture}", f"ssh 127.0.0.1:{m.port}", QVRT, f"console {m.console}", f"pid {m.pid}"] for m in up
    ]
    errors = read_broken_entries()
    if rows or not errors:
        click.echo(board_table.render(rows, screen()) if rows else "no boards.toml, no board up")
    for error in errors.values():
        click.echo(f"qverify: {error}", err=True)
    return 2 if errors else 0


@command.command(help="Connect to each board, and print what it is or why it cannot be reached")
@click.argument("names", nargs=-1)
@takes(*link_with(30.0))
def check(names: tuple[str, ...], given: Given) -> int:
    from qverify_agents.errors import LinkError
    from qverify_agents.inventory import read_boards, read_broken_entries

    worst, all_names = 0, names or (*read_boards(), *read_broken_entries())
    if not all_names:
        raise click.UsageError("no names given, and no boards.toml")
    for name in all_names:
        try:
            say(f"ok      {name}: {_describe(_connect(name, given))}")
        except LinkError as error:
            worst = max(worst, error.exit_status)
            say(f"FAILED  {name}: {error}")
    return worst


@command.command(help="Print a board's own description as JSON")
@click.argument("name")
@takes(*link_with(30.0))
def info(name: str, given: Given) -> int:
    import json

    click.echo(json.dumps(_connect(name, given), indent=1))
    return 0


@command.command(help="Boot an emulated board and leave it running: qemu:arm64, armhf, riscv64, s390x")
@click.argument("name")
@click.option("--mirror", help="a Debian archive  [default: the one that apt uses on this machine]")
@click.option("--cold", is_flag=True, help="boot even if there is a snapshot")
def up(name: str, mirror: str | None, cold: bool) -> int:
    from qverify_agents.deadline import Deadline
    from qverify_agents.emulation.image import ensure_image
    from qverify_agents.emulation.machine import keep, running, start

    kind = _require_emulated(name)
    with _lock(kind):
        machine = running(kind)
        if machine is None:
            built = ensure_image(kind, mirror, lambda text: click.echo(text, err=True))
            machine = start(
                built, Deadline(300.0, name), ends_with_us=False, cold=cold or not built.kind.restores_console
            )
            keep(machine)
            click.echo(
                f"{name} is up after {machine.started_s:.1f} s ({'from its snapshot' if machine.warm else 'booted'})"
            )
        else:
            say(f"{name} is up already")
    click.echo(f"ssh: 127.0.0.1:{machine.port} (qverify boards ssh {name}); console: {machine.console}")
    return 0


@command.command(help="Stop an emulated board; refused while it is in use")
@click.argument("name")
@click.option("--force", is_flag=True, help="even if it is in use")
def down(name: str, force: bool) -> int:
    from qverify_agents.emulation.machine import running, stop, sweep
    from qverify_agents.power import raise_if_in_use

    kind = _require_emulated(name)
    with _lock(kind):
        swept, machine = sweep(kind), running(kind)
        if machine is not None:
            if not force:
                raise_if_in_use(name)
            stop(machine)
    not_up = "was not up; remains of a killed qverify were removed" if swept else "is not up"
    click.echo(f"{name} {'is down' if machine is not None else not_up}")
    return 0


@command.command(
    help="Reset a board: an emulated one, by the `reset` (else `power`) command of boards.toml, or a place of labgrid by "
    "its power port; wait until it answers"
)
@click.argument("name")
@click.option("--force", is_flag=True, help="even if it is in use")
@takes(*link_with(180.0))
def reset(name: str, force: bool, given: Given) -> int:
    from qverify_agents.power import reset_board

    deadline_s, reach = _reach(given)
    say(f"{name} is back after {reset_board(name, deadline_s, force, reach):.1f} s")
    return 0


@command.command(
    help="Open a shell, or run one command, on an emulated board that is up or on an ssh board",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("name")
@click.argument("words", nargs=-1)
def ssh(name: str, words: tuple[str, ...]) -> int:
    import os

    from qverify_agents.errors import BadAddress
    from qverify_agents.ssh.ssh_command import ssh_command

    address = _resolve(name)
    if address.scheme == "qemu":
        address = _find_ssh(name, _require_emulated(name))
    if address.scheme != "ssh":
        raise BadAddress(f"{name}: got a {address.scheme}: board, wanted a qemu: board or one reached by ssh")
    os.execvp("ssh", [*ssh_command(address), *words])


@command.command(
    help="Print what an emulated board's console has shown, or what that of a place of labgrid shows from now on"
)
@click.argument("name")
@click.option("--wait", default="0", metavar="SECONDS", help="labgrid: how long to wait for a place that is in use")
def console(name: str, wait: str) -> int:
    from qverify_agents.emulation.machine import running
    from qverify_agents.errors import BoardUnreachable

    if (address := _resolve(name)).scheme == "labgrid":
        return follow_console(address, wait)
    machine = running(_require_emulated(name))
    if machine is None:
        raise BoardUnreachable(f"{name} is not up; start it with qverify boards up {name}")
    click.echo((Path(machine.folder) / "console.log").read_text(errors="replace"), nl=False)
    click.echo(f"(live: {machine.console})", err=True)
    return 0


@command.command(
    "break", help="Break the lock of a board whose user has been silent for a minute; never that of a running job"
)
@click.argument("name")
@takes(*link_with(30.0))
def break_(name: str, given: Given) -> int:
    from qverify_agents.connect import open_board_shell

    with open_board_shell(name, *_reach(given)) as (run, deployed):
        if not deployed.name:
            click.echo(f"no agent is on {name}, so it is not locked")
            return 0
        done = run(deployed.command_line("lock break"))
    click.echo(one_line((done.out or done.err).decode(errors="replace")))
    return 0 if done.status == 0 else 3


@command.command(help="Remove everything that qverify keeps on a board: agents and contents")
@click.argument("name")
@takes(*link_with(30.0))
def clean(name: str, given: Given) -> int:
    """Removes agents and contents. Raises BoardBusy while the board is in use."""
    import shlex

    from qverify_agents.connect import open_board_shell
    from qverify_agents.errors import BoardBusy, BoardUnreachable

    with open_board_shell(name, *_reach(given)) as (run, deployed):
        folder = shlex.quote(deployed.folder)
        lock = run(deployed.command_line("lock show")).out.decode(errors="replace").strip() if deployed.name else ""
        if '"state": "busy"' in lock:
            raise BoardBusy(f"{name} is in use: {lock[:300]}")
        done = run(f"sh -c {shlex.quote(CLEAN.replace('@DIR@', folder))}")
    if done.status != 0:
        why = last_line(done.err or done.out, f"status {done.status}")
        raise BoardUnreachable(f"{name}: {deployed.folder} could not be cleaned: {why}")
    click.echo(f"removed agents and contents of {one_line(deployed.folder)}")
    return 0


def _resolve(name: str) -> Address:
    """Returns the address for a name in boards.toml, for tags that match one board, or for an address as -b takes it.
    Raises BadAddress if several boards match."""
    from qverify_agents.address import parse
    from qverify_agents.errors import BadAddress
    from qverify_agents.inventory import ANY_RUNTIME, resolve

    fitting = resolve(name, ANY_RUNTIME)
    if len(fitting) > 1:
        raise BadAddress(f"{name}: matches {len(fitting)} boards, wanted one; choose from `qverify boards list`")
    return parse(fitting[0])


def _require_emulated(name: str) -> str:
    """Returns the kind of an emulated board, such as `arm64`. Raises BadAddress for any other board."""
    from qverify_agents.boards.qemu_system import check_host
    from qverify_agents.emulation.image import find_kind
    from qverify_agents.errors import BadAddress

    address = _resolve(name)
    if address.scheme != "qemu":
        raise BadAddress(f"{name}: not an emulated board; wanted qemu:arm64 ..., or the name of one in boards.toml")
    find_kind(address.rest)
    check_host(address.rest)
    return address.rest


def _find_ssh(name: str, kind: str) -> Address:
    """Returns the ssh address of an emulated board. Raises BoardUnreachable if it is not up."""
    from qverify_agents.boards.qemu_system import ssh_address
    from qverify_agents.emulation.image import ensure_image
    from qverify_agents.emulation.machine import running
    from qverify_agents.errors import BoardUnreachable

    machine = running(kind)
    if machine is None:
        raise BoardUnreachable(f"{name} is not up; start it with qverify boards up {name}")
    return ssh_address(ensure_image(kind), machine)


def _lock(kind: str) -> contextlib.AbstractContextManager[None]:
    """Returns a lock that one process at a time can hold while it starts or stops this board."""
    from qverify_agents.emulation.run_folders import hold_lock

    return hold_lock(
        kind, lambda: click.echo(f"qemu:{kind}: another qverify is starting or stopping it; waiting", err=True)
    )


def _describe(hello: dict[str, Any]) -> str:
    """Returns the description of a board as one line. hello: what its agent reported, where any field may be missing or
    of another type."""
    memory = hello.get("memory_bytes")
    size = f"{memory >> 20} MiB" if isinstance(memory, int) else "memory unknown"
    return f"{hello.get('arch', '?')}, qvrt {hello.get('version', '?')}, {size}, lock {hello.get('lock', '?')}"


def _join_tags(tags: dict[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in tags.items())


def _connect(name: str, given: Given) -> dict[str, Any]:
    """Connects a board, disconnects, and returns what its agent reported."""
    from qverify_agents.connect import connect
    from qverify_agents.inventory import ANY_RUNTIME

    with connect(name, *_reach(given), runs=ANY_RUNTIME) as agent:
        return agent.hello


def _reach(given: Given) -> tuple[float, dict[str, str]]:
    """Returns the limit of each reply of the board in seconds, and the options of its address."""
    from qverify.session.requests.sides import read_own_link

    return read_own_link(given)
