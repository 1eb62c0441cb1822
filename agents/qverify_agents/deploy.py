"""The agent onto a board that has a POSIX shell and little else: one look, one push where it is not there yet, checked by its own hash."""

from __future__ import annotations

import hashlib
import math
import shlex
from dataclasses import dataclass

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.capabilities import Link, Shell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import last_line

ARCHITECTURES = ("x86_64", "aarch64", "armv7", "riscv64", "s390x")
IDLE_S = 900  # an agent nobody speaks to for so long ends, and with it its hold on the board
STORE_LIMIT = 2 << 30
TRIES, REFUSED = 3, 9  # REFUSED: the status by which PUSH says that the board itself cannot
# Where the agent and the store may lie, the first that can be written and executed from. The last ones are shared folders:
# a folder there must be ours and no link.
LOOK = r"""
umask 077; export LC_ALL=C
say() { printf 'qverify:%s=%s\n' "$1" "$2"; }
say machine "$(uname -m 2>/dev/null)"
say user "$(id -u 2>/dev/null)"
why=
for dir in @CACHE@ "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/qverify}" "${HOME:+$HOME/.cache/qverify}" "/tmp/qverify-$(id -u)" "/var/tmp/qverify-$(id -u)" "/dev/shm/qverify-$(id -u)"; do
  [ -n "$dir" ] || continue
  mkdir -p "$dir/bin" "$dir/store" 2>/dev/null || { why="$why $dir (cannot be made);"; continue; }
  [ -O "$dir" ] && [ ! -h "$dir" ] || { why="$why $dir (not ours);"; continue; }
  for file in @NAMES@; do
    [ -x "$dir/bin/$file" ] || continue
    case $("$dir/bin/$file" sha256 "$dir/bin/$file" 2>/dev/null) in ${file##*-}*) say dir "$dir"; say agent "$file"; exit 0 ;; esac
  done
  for other in "$dir"/bin/qvrt-*; do [ ! -x "$other" ] || say other "${other##*/}"; done
  probe="$dir/bin/.probe.$$"
  { printf '#!/bin/sh\nexit 0\n' >"$probe" && chmod 700 "$probe"; } 2>/dev/null || { rm -f "$probe"; why="$why $dir (cannot be written);"; continue; }
  "$probe" 2>/dev/null || { rm -f "$probe"; why="$why $dir (mounted noexec);"; continue; }
  rm -f "$probe"; say dir "$dir"; exit 0
done
say why "$why"
exit 0
"""
PUSH = r"""
umask 077; part=@DIR@/bin/.@NAME@.$$.part; trap 'rm -f "$part"' EXIT HUP INT TERM;
cat >"$part" && chmod 700 "$part" && got=$("$part" sha256 "$part" 2>&1) || { echo "${got:-the push failed}" >&2; exit 9; };
[ "$got" = @SHA256@ ] || { echo "the pushed agent has hash $got" >&2; exit 9; };
mv -f "$part" @DIR@/bin/@NAME@ && for old in @DIR@/bin/@STEM@-*; do [ "$old" = @DIR@/bin/@NAME@ ] || rm -f "$old"; done
"""


@dataclass(frozen=True, slots=True)
class DeployedAgent:
    """folder: the agent's own on the board. name: of the binary in its bin. pushed_bytes: 0 when it was there. lock: as of start."""

    folder: str
    name: str
    pushed_bytes: int
    lock: str = "auto"

    def agent(self, words: str) -> str:
        """A command line for the board's shell: `lock show`, `lock break`."""
        return f"{shlex.quote(f'{self.folder}/bin/{self.name}')} {words} {shlex.quote(f'--path={self.lock}')}"


def deploy(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Options of the address: cache; arch, for a board whose uname -m misleads; fault. Raises BoardUnreachable that says
    what of the board stands in the way."""
    faulty, told = "fault" in address.options, MACHINES.get(address.options.get("arch", ""), "")
    names = {a: _name(a, faulty) for a in ([told] if told else ARCHITECTURES)}
    said = _looked(shell, where, deadline, address.options.get("cache", ""), list(names.values()))
    if "agent" in said and said["agent"] in names.values():
        return DeployedAgent(said["dir"], said["agent"], 0)
    architecture = told or MACHINES.get(said["machine"].lower(), "")
    if architecture not in names:
        raise BoardUnreachable(
            f"{where} is {said['machine'] or 'of an unknown kind'}; the runtime is built for {', '.join(ARCHITECTURES)}"
        )
    return _push(shell, where, deadline, said["dir"], architecture, faulty)


def find_agent(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """The agent that is there, of whatever version; its name is empty where none is. Nothing is pushed."""
    said = _looked(shell, where, deadline, address.options.get("cache", ""), [_name(a, False) for a in ARCHITECTURES])
    return DeployedAgent(said["dir"], said.get("agent", said.get("other", "")), 0)


def _looked(shell: Shell, where: str, deadline: Deadline, cache: str, names: list[str]) -> dict[str, str]:
    """What LOOK says: machine, dir, and perhaps agent (of names) or other. BoardUnreachable where there is no dir."""
    asked = '"$HOME"' + shlex.quote(cache[1:]) if cache.startswith("~/") else shlex.quote(cache)
    look = LOOK.replace("@CACHE@", asked).replace("@NAMES@", " ".join(names))
    for _ in range(TRIES):  # a noisy console may have spoilt the command or its answer
        done = shell.run("sh -s", deadline, look.encode())  # not as a word: csh takes no line ends between quotes
        said = _said(done.out)
        if "machine" in said and ("dir" in said or "why" in said):
            break
    if "machine" not in said:
        why = last_line(done.err or done.out, "it says nothing")
        raise BoardUnreachable(f"{where}: its shell does not run a plain sh script (status {done.status}: {why})")
    if "dir" not in said:
        raise BoardUnreachable(
            f"{where}: no folder for the agent:{said.get('why', '') or ' none found'} Next: name one with ?cache=DIR in the board's address"
        )
    return said


def _push(shell: Shell, where: str, deadline: Deadline, folder: str, architecture: str, faulty: bool) -> DeployedAgent:
    data, name = runtime_path(architecture, faulty).read_bytes(), _name(architecture, faulty)
    script = (
        PUSH.replace("@DIR@", shlex.quote(folder))
        .replace("@NAME@", name)
        .replace("@STEM@", runtime_path(architecture, faulty).name)
        .replace("@SHA256@", hashlib.sha256(data).hexdigest())
    )
    for _ in range(TRIES):
        done = shell.run(f"sh -c {shlex.quote(' '.join(script.split(chr(10))))}", deadline, data)
        if done.status in (0, REFUSED):
            break
    if done.status != 0:
        lines = done.err.decode(errors="replace").strip().splitlines()
        raise BoardUnreachable(
            f"{where}: the agent of {len(data)} bytes cannot be put into {folder}/bin: {lines[0][:200] if lines else f'status {done.status}'}"
        )
    return DeployedAgent(folder, name, len(data))


def _name(architecture: str, faulty: bool) -> str:
    path = runtime_path(architecture, faulty)
    return f"{path.name}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def _said(out: bytes) -> dict[str, str]:
    """The lines qverify:key=value, whatever banners stand around them."""
    found = {}
    for line in out.decode(errors="replace").splitlines():
        if line.startswith("qverify:") and "=" in line:
            key, _, value = line[8:].partition("=")
            found[key] = value
    return found


def start_agent(
    shell: Shell,
    deployed: DeployedAgent,
    deadline: Deadline,
    environment: dict[str, str],
    node_limit_s: float,
    memory: str = "",
    lock: str = "auto",
    quota_bytes: int = STORE_LIMIT,
) -> Link:
    """The agent, started; it takes the shell's place. node_limit_s: it ends when a node takes longer. lock: a file of the
    board, or auto. quota_bytes: of all contents kept there."""
    words = [
        f"{deployed.folder}/bin/{deployed.name}",
        "agent",
        f"--store={deployed.folder}/store",
        f"--store_limit={quota_bytes}",
    ]
    words += [f"--lock={lock}", f"--idle={IDLE_S}", f"--node_limit={math.ceil(min(node_limit_s, 1e6))}"]
    words += [f"--memory={memory}"] if memory else []
    given = ["env", *(f"{k}={v}" for k, v in environment.items())] if environment else []
    return shell.start(f"exec {shlex.join([*given, *words])}", deadline)
