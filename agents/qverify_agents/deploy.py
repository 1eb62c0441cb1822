"""Puts the agent on a board that needs only a POSIX shell: one look, and one push if it is missing, checked by its own
hash."""

from __future__ import annotations

import hashlib
import math
import shlex
from dataclasses import dataclass, replace

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.capabilities import Link, Shell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import last_line
from qverify_agents.worker import MODULES, is_worker, packed_worker, python_words, runtime_words, worker_name

ARCHITECTURES = ("x86_64", "aarch64", "armv7", "riscv64", "s390x")
IDLE_S = 900  # an agent that receives nothing for so long ends, and releases the board
STORE_LIMIT = 2 << 30
TRIES, REFUSED = 3, 9  # REFUSED: PUSH's exit status when the board itself fails
# Where the agent and the store may be: the first folder that is writable and executable. The last ones are in shared folders:
# a folder there must be our own and not a symbolic link.
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
cat >"$part" && chmod 700 "$part" && got=$(@CHECK@ "$part" 2>&1) || { echo "${got:-the push failed}" >&2; exit 9; };
[ "$got" = @SHA256@ ] || { echo "the pushed agent has hash $got" >&2; exit 9; };
mv -f "$part" @DIR@/bin/@NAME@ && for old in @DIR@/bin/@STEM@-*; do [ "$old" = @DIR@/bin/@NAME@ ] || rm -f "$old"; done
"""
PYTHONS = ["python3", "python", "/usr/bin/python3", "/opt/venv/bin/python3"]  # of a board, in the order of trial
FIND = r"""
export LC_ALL=C; why=
say() { printf 'qverify:%s=%s\n' "$1" "$2"; }
import_by() { got=$($1 -I -c @CODE@ 2>&1 </dev/null) && say python "$1" && found=$1; }
@TRIED@ || say why "$(printf '%s' "$got" | tail -n 1)"
[ -z "$found" ] || [ ! -f @PATH@ ] || say there "$($found -I -c @HASH@ @PATH@ 2>/dev/null </dev/null)"
say end 1
"""
IMPORT = """
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
HASH = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"


@dataclass(frozen=True, slots=True)
class DeployedAgent:
    """An agent on a board. folder: its own folder there. name: of the binary in its bin. pushed_bytes: 0 if it was
    already there. lock: as for start_agent. interpreter: of the board, that runs it, if it is no program itself. runtime:
    words that say what it drives."""

    folder: str
    name: str
    pushed_bytes: int
    lock: str = "auto"
    interpreter: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()

    def agent(self, words: str) -> str:
        """Returns the board's command line for these words of the agent: `lock show`, `lock break`."""
        return f"{shlex.quote(f'{self.folder}/bin/{self.name}')} {words} {shlex.quote(f'--path={self.lock}')}"


def deploy(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Puts the agent on the board, unless it is there. Options of the address: cache; arch, for a board whose uname -m
    is wrong; fault. Raises BoardUnreachable with what failed on the board."""
    if is_worker(address):
        return deploy_worker(shell, where, deadline, address)
    faulty, named = "fault" in address.options, MACHINES.get(address.options.get("arch", ""), "")
    names = {a: _name(a, faulty) for a in ([named] if named else ARCHITECTURES)}
    answers = _look(shell, where, deadline, address.options.get("cache", ""), list(names.values()))
    if "agent" in answers and answers["agent"] in names.values():
        return DeployedAgent(answers["dir"], answers["agent"], 0)
    architecture = named or MACHINES.get(answers["machine"].lower(), "")
    if architecture not in names:
        raise BoardUnreachable(
            f"{where} is {answers['machine'] or 'of an unknown kind'}; the runtime is built for {', '.join(ARCHITECTURES)}"
        )
    return _push(shell, where, deadline, answers["dir"], architecture, faulty)


def deploy_worker(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Puts the worker on the board, unless it is there, and finds a Python that has its runtime's library. Raises
    BoardUnreachable."""
    folder = _look(shell, where, deadline, address.options.get("cache", ""), [])["dir"]
    data, name, runtime = packed_worker(), worker_name(), address.options["runtime"]
    path = f"{folder}/bin/{name}"
    wanted = [shlex.join(words)] if (words := python_words(address)) else PYTHONS
    for _ in range(TRIES):
        answers = _parse_answers(shell.run("sh -s", deadline, _find_python(wanted, runtime, path)).out)
        if answers.get("end") == "1":
            break
    if "python" not in answers:
        why = answers.get("why", "no answer")
        raise BoardUnreachable(
            f"{where}: no Python with {runtime} there ({', '.join(wanted)}: {why}). Next: install it on the board, or name a "
            "Python that has it by --python"
        )
    deployed = DeployedAgent(
        folder, name, 0, "auto", (*shlex.split(answers["python"]), "-I"), tuple(runtime_words(address))
    )
    if answers.get("there") == hashlib.sha256(data).hexdigest():
        return deployed
    check = f"{answers['python']} -I -c {shlex.quote(HASH)}"
    _put(shell, where, deadline, folder, name, "qverify_worker", data, check)
    return replace(deployed, pushed_bytes=len(data))


def _find_python(wanted: list[str], runtime: str, path: str) -> bytes:
    """Returns the script that prints the first of these Pythons that can import the runtime's library, and the hash of the
    worker that is there."""
    tried = " || ".join(f"import_by {shlex.quote(one)}" for one in wanted)
    modules = ", ".join(repr(m) for m in MODULES[runtime])
    text = FIND.replace("@TRIED@", tried).replace("@CODE@", shlex.quote(IMPORT.replace("@MODULES@", modules)))
    return text.replace("@HASH@", shlex.quote(HASH)).replace("@PATH@", shlex.quote(path)).encode()


def find_agent(shell: Shell, where: str, deadline: Deadline, address: Address) -> DeployedAgent:
    """Returns the agent that is there, of any version; its name is empty if there is none. Pushes nothing."""
    answers = _look(shell, where, deadline, address.options.get("cache", ""), [_name(a, False) for a in ARCHITECTURES])
    return DeployedAgent(answers["dir"], answers.get("agent", answers.get("other", "")), 0)


def _look(shell: Shell, where: str, deadline: Deadline, cache: str, names: list[str]) -> dict[str, str]:
    """Returns what LOOK prints: machine, dir, and perhaps agent (of names) or other. Raises BoardUnreachable without a
    dir."""
    quoted = '"$HOME"' + shlex.quote(cache[1:]) if cache.startswith("~/") else shlex.quote(cache)
    look = LOOK.replace("@CACHE@", quoted).replace("@NAMES@", " ".join(names))
    for _ in range(TRIES):  # a noisy console may have spoilt the command or its answer
        done = shell.run("sh -s", deadline, look.encode())  # not as a word: csh takes no line ends between quotes
        answers = _parse_answers(done.out)
        if "machine" in answers and ("dir" in answers or "why" in answers):
            break
    if "machine" not in answers:
        why = last_line(done.err or done.out, "no output")
        raise BoardUnreachable(f"{where}: its shell cannot run a POSIX sh script (status {done.status}: {why})")
    if "dir" not in answers:
        raise BoardUnreachable(
            f"{where}: no folder for the agent:{answers.get('why', '') or ' none found'} Next: name one with ?cache=DIR in the board's address"
        )
    return answers


def _push(shell: Shell, where: str, deadline: Deadline, folder: str, architecture: str, faulty: bool) -> DeployedAgent:
    path = runtime_path(architecture, faulty)
    data, name = path.read_bytes(), _name(architecture, faulty)
    _put(shell, where, deadline, folder, name, path.name, data, '"$part" sha256')
    return DeployedAgent(folder, name, len(data))


def _put(
    shell: Shell, where: str, deadline: Deadline, folder: str, name: str, stem: str, data: bytes, check: str
) -> None:
    """Writes a file into the folder's bin and removes those of the same stem. check: the board's command that prints a
    file's SHA-256. Raises BoardUnreachable."""
    script = (
        PUSH.replace("@CHECK@", check)
        .replace("@DIR@", shlex.quote(folder))
        .replace("@NAME@", name)
        .replace("@STEM@", stem)
        .replace("@SHA256@", hashlib.sha256(data).hexdigest())
    )
    for _ in range(TRIES):
        done = shell.run(f"sh -c {shlex.quote(' '.join(script.split(chr(10))))}", deadline, data)
        if done.status in (0, REFUSED):
            break
    if done.status != 0:
        lines = done.err.decode(errors="replace").strip().splitlines()
        raise BoardUnreachable(
            f"{where}: the agent of {len(data)} bytes cannot be written to {folder}/bin: {lines[0][:200] if lines else f'status {done.status}'}"
        )


def _name(architecture: str, faulty: bool) -> str:
    path = runtime_path(architecture, faulty)
    return f"{path.name}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def _parse_answers(out: bytes) -> dict[str, str]:
    """Returns the lines qverify:key=value as a dict; other lines, such as banners, are ignored."""
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
    """Starts the agent in the shell's place and returns the link to it. node_limit_s: it ends if a node takes longer.
    lock: a file on the board, or auto. quota_bytes: of all contents kept there."""
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
