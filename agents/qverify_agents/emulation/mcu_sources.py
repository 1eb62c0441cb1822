"""The C sources of the agent for a microcontroller: only the files that it needs, and how they are compiled."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

from qverify_agents.emulation.microcontrollers import MICROCONTROLLERS, Microcontroller
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.this_user import cache_folder

PACKAGE = Path(__file__).resolve().parents[1]
PAYLOAD_BYTES, STACK_BYTES, COMPILE_S = 4096, 16384, 300
# Limits of the agent on a machine with little memory.
LIMITS = (
    f"-DQV_PAYLOAD_LIMIT={PAYLOAD_BYTES}",
    "-DQV_FRAME_SLACK=32",
    "-DQV_LIST_LIMIT=64",
    "-DQV_STORE_LIMIT=16",
    "-DQV_USES_LIMIT=16",
    "-DQV_LZ4_BITS=9",
)
# Floats are computed as written: -fno-tree-vectorize, because vectors of floats flush subnormals on Cortex-M55.
CFLAGS = (
    "-std=c99",
    "-Os",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-tree-vectorize",
    "-ffunction-sections",
    "-fdata-sections",
    *LIMITS,
    "-Iinclude",
    "-Isrc",
)
LINK = ("-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-warn-rwx-segments")
FIRMWARE_CFLAGS = (
    "-std=c99",
    "-O2",
    "-ffp-contract=off",
    "-fno-tree-vectorize",
    "-ffunction-sections",
    "-fdata-sections",
    "-Ihook/example",
)
TABLE, FLASH, NETWORK = "table.c", "flash.c", "network.c"
NAME = re.compile(r"\bqv_\w+")
DEFINITION = re.compile(r"^(?!static|typedef|extern|#|\s|/)[^;={]*?\b(qv_\w+)\s*(?:\[[^\]]*\]\s*=|=|\()", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
OP = re.compile(r"^const qv_op qv_op_(\w+)", re.M)
FLOOR = (
    "mcu/agent_main.c",
    "mcu/double_addition.c",
    "mcu/text.c",
    "mcu/heap.c",
)  # used by name of the library, or at the start


def sources_root() -> Path:
    """Returns the folder with src, include, mcu and hook: of the package, or of the clone."""
    packaged = PACKAGE / "sources"
    return packaged if packaged.is_dir() else PACKAGE.parents[1] / "board_runtime"


def known_ops(root: Path) -> list[str]:
    """Returns the names of all ops that have a C file."""
    return sorted(stem for path in (root / "src" / "ops").glob("*.c") for stem in OP.findall(path.read_text()))


def table_text(ops: Collection[str]) -> str:
    """Returns the C file that lists the ops."""
    declared = "".join(f"extern const qv_op qv_op_{op};\n" for op in ops)
    listed = ", ".join([*(f"&qv_op_{op}" for op in ops), "NULL"])
    run = "qv_status qv_run_op(const qv_session *s, const qv_node *n) { return qv_run_kernel(s, n); }"
    return f'/* The ops of this agent. */\n#include "qvrt.h"\n\n{declared}const qv_op *const qv_op_table[] = {{{listed}}};\n\n{run}\n'


def flash_text(models: Mapping[str, bytes]) -> str:
    """Returns the C file with these models, by name, which the agent runs where they lie."""
    parts = ['/* Models in flash, by their SHA-256. */\n#include <stddef.h>\n\n#include "mcu/flash.h"\n']
    rows = []
    for at, (name, data) in enumerate(models.items()):
        lines = (", ".join(map(str, data[i : i + 32])) for i in range(0, len(data), 32))
        section = '__attribute__((aligned(64), section(".contents")))'
        parts.append(
            f"/* {name.replace('*/', '')} */\nstatic const uint8_t model_{at}[] {section} = {{\n"
            + ",\n".join(lines)
            + "};\n"
        )
        digest = ", ".join(map(str, hashlib.sha256(data).digest()))
        rows.append(f"  {{{{{digest}}}, model_{at}, model_{at} + sizeof model_{at}}},\n")
    return "\n".join(parts) + "\nconst qv_flash_content qv_flash[] = {\n" + "".join(rows) + "  {{0}, NULL, NULL}};\n"


def needed_files(root: Path, ops: Collection[str]) -> list[str]:
    """Returns the C files that an agent with these ops needs, found by the names that each file defines and uses. Raises
    BadAddress for an op that has no file."""
    if unknown := next((op for op in ops if op not in known_ops(root)), None):
        raise BadAddress(f"{unknown}: no such op in {root / 'src' / 'ops'}")
    excluded = {
        "src/ops/table.c",
        "src/posix.c",
        "src/threads.c",
        "src/main.c",
        "src/agent/agent_main.c",
        "src/agent/store.c",
    }
    excluded |= {
        "src/agent/store_folder.c",
        "src/agent/board_lock.c",
        "src/agent/lock_holder.c",
        "src/agent/wire.c",
        "mcu/no_flash.c",
    }
    texts = {}
    for path in [*(root / "src").rglob("*.c"), *(root / "mcu").glob("*.c")]:
        name = path.relative_to(root).as_posix()
        if name not in excluded and path.parent.name not in ("faults", "commands") and path.stem not in STARTS:
            texts[name] = COMMENT.sub("", path.read_text())
    headers = {p.name: COMMENT.sub("", p.read_text()) for p in (root / "src").rglob("*.h")}
    defined_in = {symbol: name for name, text in texts.items() for symbol in DEFINITION.findall(text)}
    wanted = {f"qv_op_{op}" for op in ops} | {"qv_run_kernel"}
    todo, files = [defined_in[symbol] for symbol in sorted(wanted)] + [f for f in FLOOR if f in texts], set[str]()
    while todo:
        name = todo.pop()
        if name in files:
            continue
        files.add(name)
        included = (headers.get(Path(h).name, "") for h in re.findall(r'#include "([^"]+)"', texts[name]))
        bodies = [texts[name], *(h for h in included if "_body" in h or "inline" in h)]
        todo += [defined_in[s] for body in bodies for s in NAME.findall(body) if s in defined_in]
    return sorted(files)


STARTS = sorted({kind.start for kind in MICROCONTROLLERS.values()})


def write_sources(folder: Path, ops: Collection[str], models: Mapping[str, bytes]) -> list[str]:
    """Writes the sources of an agent with these ops and models, and a Makefile. Returns the names of the C files but
    those of single boards. Raises BadAddress for an op that does not exist, OSError."""
    root = sources_root()
    files = needed_files(root, ops)
    headers = [p.relative_to(root).as_posix() for part in ("src", "include", "mcu") for p in (root / part).rglob("*.h")]
    boards = [f"mcu/{start}.{end}" for start in STARTS for end in ("c", "ld")]
    for name in [*files, *boards, *(h for h in headers if "/faults/" not in h)]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)
    (folder / TABLE).write_text(table_text(ops))
    (folder / FLASH).write_text(flash_text(models))
    files = [*files, TABLE, FLASH]
    (folder / "Makefile").write_text(_makefile(files))
    return files


def write_firmware(folder: Path, network: str) -> list[str]:
    """Writes the sources of the example firmware: qv_hook, its adapters, an inference engine with this network (a C
    file), and a Makefile. Returns the names of the C files but those of single boards. Raises OSError."""
    root, files = sources_root(), ["hook/qv_hook.c", "hook/example/main.c", "hook/example/layers.c"]
    parts = [p for part in ("hook", "mcu") for p in (root / part).rglob("*.h")]
    boards = [root / "mcu" / f"{start}.{end}" for start in STARTS for end in ("c", "ld")]
    for path in [*parts, *boards, *(root / f for f in files)]:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (folder / NETWORK).write_text(network)
    files = [*files, NETWORK]
    (folder / "Makefile").write_text(_makefile(files, "firmware", FIRMWARE_CFLAGS))
    return files


def compile_firmware(folder: Path, files: Collection[str], name: str, extra: Collection[str] = ()) -> Path:
    """Compiles sources that write_firmware() wrote, as compile_agent() does."""
    return _compile(folder, files, name, folder / f"firmware-{name}.elf", (*FIRMWARE_CFLAGS, *extra))


def board_arguments(kind: Microcontroller) -> list[str]:
    """Returns the arguments of the compiler that are those of one machine."""
    symbols = [f"-Wl,--defsym={k}={v:#x}" for k, v in (*kind.symbols, ("qv_stack_bytes", STACK_BYTES))]
    defines = [f"-D{d}" for d in (*kind.defines, f'QV_ARCH="{kind.core}"')]
    return [*kind.flags, *defines, f"mcu/{kind.start}.c", "-T", f"mcu/{kind.start}.ld", *symbols]


def _makefile(files: Collection[str], program: str = "agent", flags: Collection[str] = CFLAGS) -> str:
    boards = "".join(
        f"CC_{name} = {kind.compiler}\nARGUMENTS_{name} = {' '.join(_quoted(a) for a in board_arguments(kind))}\n"
        for name, kind in MICROCONTROLLERS.items()
    )
    return f"""# make BOARD=NAME builds {program}-NAME.elf; NAME is one of {" ".join(MICROCONTROLLERS)}.
# For a board of your own: compile SOURCES with CFLAGS, and write the functions of mcu/hal.h for it.
BOARD ?= an386
CFLAGS = {" ".join(flags)} -I.
SOURCES = {" ".join(files)}
{boards}
{program}-$(BOARD).elf: $(SOURCES)
\t$(CC_$(BOARD)) $(CFLAGS) $(SOURCES) $(ARGUMENTS_$(BOARD)) {" ".join(LINK)} -lm -o $@
"""


def _quoted(argument: str) -> str:
    return f"'{argument}'" if '"' in argument else argument


def compile_agent(folder: Path, files: Collection[str], name: str, extra: Collection[str] = ()) -> Path:
    """Compiles sources that write_sources() wrote for a machine, and returns the program. extra: further arguments of the
    compiler. Raises BoardUnreachable if the compiler is not on this machine or fails."""
    return _compile(folder, files, name, folder / f"agent-{name}.elf", (*CFLAGS, *extra))


def _compile(folder: Path, files: Collection[str], name: str, out: Path, flags: Collection[str]) -> Path:
    kind = MICROCONTROLLERS[name]
    if shutil.which(kind.compiler) is None:
        raise BoardUnreachable(
            f"-b qemu-mcu:{name}: no {kind.compiler} on this machine; apt-get install {COMPILER_APT[kind.compiler]}"
        )
    part = out.with_suffix(f".{os.getpid()}.part")
    command = [kind.compiler, *flags, "-I.", *files, *board_arguments(kind), *LINK, "-lm", "-o", str(part.absolute())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    if done.returncode:
        error = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise BoardUnreachable(f"-b qemu-mcu:{name}: {kind.compiler} failed: {error}")
    part.replace(out)
    return out


COMPILER_APT = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
}


def agent_of_all_ops(name: str) -> Path:
    """Returns the agent with every op for a machine, compiled once and kept in the user's cache. Raises
    BoardUnreachable."""
    root = sources_root()
    key = hashlib.sha256(repr((CFLAGS, LINK, board_arguments(MICROCONTROLLERS[name]))).encode())
    for path in sorted(p for part in ("src", "include", "mcu") for p in (root / part).rglob("*") if p.is_file()):
        key.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    folder = cache_folder() / "mcu" / key.hexdigest()[:16]
    out = folder / f"agent-{name}.elf"
    if not out.is_file():
        compile_agent(folder, write_sources(folder, known_ops(root), {}), name)
    return out
