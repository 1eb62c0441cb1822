"""Copies the agent to a board that has no more than a POSIX shell: one command inspects the board, and a second one
writes the agent if it is missing. The agent's file is checked by its hash."""

from __future__ import annotations

import hashlib
import math
import shlex
from dataclasses import dataclass, replace

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.interfaces import Link, Shell
from qverify_agents.printable import last_line
from qverify_agents.worker import MODULES, is_worker, named_python, pack_worker, runtime_arguments, worker_file_name

ARCHITECTURES = ("x86_64", "aarch64", "armv7", "riscv64", "s390x")
IDLE_S = 900  # seconds after which an agent that receives nothing ends and releases the board
STORE_LIMIT = 8 << 30  # bytes of all contents that are kept on the board
MAX_TRIES = 3  # runs of a script whose text or output the link may have damaged
PUSH_FAILED_STATUS = 9  # exit status of PUSH_SCRIPT if the board cannot store or run the file
# Prints facts of the board, and the folder for the agent and the store: the first one that can be written to and
# executed from. The last candidates are in shared folders; a folder there must belong to this user and not be a
# symbolic link.
LOOK_SCRIPT = r"""
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
PUSH_SCRIPT = r"""
umask 077; part=@DIR@/bin/.@NAME@.$$.part; trap 'rm -f "$part"' EXIT HUP INT TERM;
cat >"$part" && chmod 700 "$part" && got=$(@CHECK@ "$part" 2>&1) || { echo "${got:-the push failed}" >&2; exit 9; };
[ "$got" = @SHA256@ ] || { echo "the pushed agent has hash $got" >&2; exit 9; };
mv -f "$part" @DIR@/bin/@NAME@ && for old in @DIR@/bin/@STEM@-*; do [ "$old" = @DIR@/bin/@NAME@ ] || rm -f "$old"; done
"""
PYTHONS = [
    "python3",
    "python",
    "/usr/bin/python3",
    "/opt/venv/bin/python3",
]  # commands to try on a board, in this order
FIND_PYTHON_SCRIPT = r"""
export LC_ALL=C; why=
say() { printf 'qverify:%s=%s\n' "$1" "$2"; }
import_by() { got=$($1 -I -c @CODE@ 2>&1 </dev/null) && say python "$1" && found=$1; }
@TRIED@ || say why "$(printf '%s' "$got" | tail -n 1)"
[ -z "$found" ] || [ ! -f @PATH@ ] || say there "$($found -I -c @HASH@ @PATH@ 2>/dev/null </dev/null)"
say end 1
"""
IMPORT_PROGRAM = """
import importlib, sys
why = ""
for name in (@MODULES@,):
    try:
        importlib.import_module(name)
        sys.exit(0)
    except ImportError as error:
        why = why or str(error)
sys.exit(why)
"""
HASH_PROGRAM = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"


@dataclass(frozen=True, slots=True)
class DeployedAgent:
    """An agent on a board.

    Attributes:
        folder: qverify's folder on the board.
        name: file name of the agent in `bin` of that folder.
        pushed_bytes: number of bytes that were sent, 0 if the agent was already there.
        lock: the board's lock file, or "auto".
        interpreter: command of the board's Python, or () for an agent that is a program by itself.
        runtime: arguments that name the runtime it drives and its options.
    """

    folder: str
    name: str
    pushed_bytes: int
    lock: str = "auto"
    interpreter: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()

    def command_line(self, words: str) -> str:
        """Returns the command line that runs the agent with these arguments (`lock show`, `lock break`) on the
        board."""
        return f"{shlex.quote(f'{self.folder}/bin/{self.name}')} {words} {shlex.quote(f'--path={self.lock}')}"


def deploy(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Copies the agent to the board, unless it is there. Regards these options of the address: cache; arch, for a board
    whose `uname -m` is wrong; fault. Raises BoardUnreachable with the reason if the board has no place for it."""
    if is_worker(address):
        return deploy_worker(shell, where, deadline, address)
    faulty, named_architecture = "fault" in address.options, MACHINES.get(address.options.get("arch", ""), "")
    file_names = {
        architecture: _agent_file_name(architecture, faulty)
        for architecture in ([named_architecture] if named_architecture else ARCHITECTURES)
    }
    answers = _inspect_board(shell, where, deadline, address.options.get("cache", ""), list(file_names.values()))
    if "agent" in answers and answers["agent"] in file_names.values():
        return DeployedAgent(answers["dir"], answers["agent"], 0)
    architecture = named_architecture or MACHINES.get(answers["machine"].lower(), "")
    if architecture not in file_names:
        raise BoardUnreachable(
            f"{where} is {answers['machine'] or 'of an unknown kind'}; the runtime is built for {', '.join(ARCHITECTURES)}"
        )
    return _push_agent(shell, where, deadline, answers["dir"], architecture, faulty)


def deploy_worker(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Copies the worker to the board, unless it is there, and finds a Python that has the runtime's library. Raises
    BoardUnreachable."""
    folder = _inspect_board(shell, where, deadline, address.options.get("cache", ""), [])["dir"]
    data, name, runtime = pack_worker(), worker_file_name(), address.options["runtime"]
    path = f"{folder}/bin/{name}"
    candidates = [shlex.join(words)] if (words := named_python(address)) else PYTHONS
    for _ in range(MAX_TRIES):
        answers = _parse_answers(shell.run("sh -s", deadline, _find_python_script(candidates, runtime, path)).out)
        if answers.get("end") == "1":
            break
    if "python" not in answers:
        reason = answers.get("why", "no answer")
        raise BoardUnreachable(
            f"{where}: no Python with {runtime} there ({', '.join(candidates)}: {reason}). Next: install it on the board, or name a "
            "Python that has it by --python"
        )
    deployed = DeployedAgent(
        folder, name, 0, "auto", (*shlex.split(answers["python"]), "-I"), tuple(runtime_arguments(address))
    )
    if answers.get("there") == hashlib.sha256(data).hexdigest():
        return deployed
    check = f"{answers['python']} -I -c {shlex.quote(HASH_PROGRAM)}"
    _write_program(shell, where, deadline, folder, name, "qverify_worker", data, check)
    return replace(deployed, pushed_bytes=len(data))


def _find_python_script(candidates: list[str], runtime: str, path: str) -> bytes:
    """Returns the script that prints the first of these Python commands that can import the runtime's library, and the
    hash of the worker at this path of the board."""
    attempts = " || ".join(f"import_by {shlex.quote(command)}" for command in candidates)
    modules = ", ".join(repr(m) for m in MODULES[runtime])
    text = FIND_PYTHON_SCRIPT.replace("@TRIED@", attempts).replace(
        "@CODE@", shlex.quote(IMPORT_PROGRAM.replace("@MODULES@", modules))
    )
    return text.replace("@HASH@", shlex.quote(HASH_PROGRAM)).replace("@PATH@", shlex.quote(path)).encode()


def find_agent(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Returns the agent of any version that is on the board; its name is "" if there is none. Writes nothing."""
    answers = _inspect_board(
        shell, where, deadline, address.options.get("cache", ""), [_agent_file_name(a, False) for a in ARCHITECTURES]
    )
    return DeployedAgent(answers["dir"], answers.get("agent", answers.get("other", "")), 0)


def _inspect_board(shell: Shell, where: str, deadline: Deadline, cache: str, names: list[str]) -> dict[str, str]:
    """Returns the facts that LOOK_SCRIPT prints: machine, user, dir (the folder for the agent), and if an agent is
    there, its file name as `agent` (one of `names`) or `other`. Raises BoardUnreachable if there is no folder."""
    quoted_cache = '"$HOME"' + shlex.quote(cache[1:]) if cache.startswith("~/") else shlex.quote(cache)
    script = LOOK_SCRIPT.replace("@CACHE@", quoted_cache).replace("@NAMES@", " ".join(names))
    for _ in range(MAX_TRIES):  # a noisy console may have damaged the command or its output
        # Not as an argument of sh, because csh refuses line ends between quotes.
        result = shell.run("sh -s", deadline, script.encode())
        answers = _parse_answers(result.out)
        if "machine" in answers and ("dir" in answers or "why" in answers):
            break
    if "machine" not in answers:
        reason = last_line(result.err or result.out, "no output")
        raise BoardUnreachable(f"{where}: its shell cannot run a POSIX sh script (status {result.status}: {reason})")
    if "dir" not in answers:
        raise BoardUnreachable(
            f"{where}: no folder for the agent:{answers.get('why', '') or ' none found'} Next: name one with ?cache=DIR in the board's address"
        )
    return answers


def _push_agent(
    shell: Shell, where: str, deadline: Deadline, folder: str, architecture: str, faulty: bool
) -> DeployedAgent:
    path = runtime_path(architecture, faulty)
    data, name = path.read_bytes(), _agent_file_name(architecture, faulty)
    _write_program(shell, where, deadline, folder, name, path.name, data, '"$part" sha256')
    return DeployedAgent(folder, name, len(data))


def _write_program(
    shell: Shell, where: str, deadline: Deadline, folder: str, name: str, stem: str, data: bytes, check: str
) -> None:
    """Writes a program into the folder's `bin` and removes older ones with the same stem. check: command of the board
    that prints the SHA-256 of a file. Raises BoardUnreachable."""
    script = (
        PUSH_SCRIPT.replace("@CHECK@", check)
        .replace("@DIR@", shlex.quote(folder))
        .replace("@NAME@", name)
        .replace("@STEM@", stem)
        .replace("@SHA256@", hashlib.sha256(data).hexdigest())
    )
    for _ in range(MAX_TRIES):
        result = shell.run(f"sh -c {shlex.quote(' '.join(script.split(chr(10))))}", deadline, data)
        if result.status in (0, PUSH_FAILED_STATUS):
            break
    if result.status != 0:
        lines = result.err.decode(errors="replace").strip().splitlines()
        raise BoardUnreachable(
            f"{where}: the agent of {len(data)} bytes cannot be written to {folder}/bin: {lines[0][:200] if lines else f'status {result.status}'}"
        )


def _agent_file_name(architecture: str, faulty: bool) -> str:
    path = runtime_path(architecture, faulty)
    return f"{path.name}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def _parse_answers(out: bytes) -> dict[str, str]:
    """Returns the output's lines `qverify:key=value` as a dict; ignores other lines, such as a banner."""
    values = {}
    for line in out.decode(errors="replace").splitlines():
        if line.startswith("qverify:") and "=" in line:
            key, _, value = line[8:].partition("=")
            values[key] = value
    return values


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
    """Starts the agent in place of the shell and returns the link to it.

    Args:
        shell: a shell on the board.
        deployed: the agent to start.
        deadline: the deadline for starting it.
        environment: variables to set for it.
        node_limit_s: seconds that one node may take; the agent ends itself if one takes longer.
        memory: the most bytes that a run may take with every tensor kept, or "" for the agent's default.
        lock: the board's lock file, or "auto".
        quota_bytes: the most bytes of all contents kept on the board.
    """
    words = [
        *deployed.interpreter,
        f"{deployed.folder}/bin/{deployed.name}",
        *deployed.runtime,
        "agent",
        f"--store={deployed.folder}/store",
        f"--store_limit={quota_bytes}",
    ]
    words += [f"--lock={lock}", f"--idle={IDLE_S}", f"--node_limit={math.ceil(min(node_limit_s, 1e6))}"]
    words += [f"--memory={memory}"] if memory else []
    prefix = ["env", *(f"{k}={v}" for k, v in environment.items())] if environment else []
    return shell.start(f"exec {shlex.join([*prefix, *words])}", deadline)
