"""Microcontrollers that QEMU emulates, and a running one with its serial line on a pty."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.printable import last_line
from qverify_agents.process_group import KILL, new_group_arguments
from qverify_agents.signals_held import signals_held

PTY = re.compile(r"char device redirected to (\S+) \(label line\)")


@dataclass(frozen=True, slots=True)
class Microcontroller:
    """A machine of QEMU.

    Attributes:
        core: name of its processor core.
        program: QEMU's program for it.
        machine: arguments of that program.
        apt: the package of Debian that has the program.
        flags: arguments of the compiler for this core.
        compiler: the compiler for it.
        start: name of its start-up code and of its linker script in board_runtime/mcu, without suffix.
        symbols: values for the linker script.
        defines: macros for the start-up code.
    """

    core: str
    program: str
    machine: tuple[str, ...]
    apt: str
    compiler: str
    flags: tuple[str, ...]
    start: str
    symbols: tuple[tuple[str, int], ...]
    defines: tuple[str, ...] = ()


def _cortex(
    core: str,
    machine: str,
    flags: str,
    flash: int = 0,
    ram: int = 0x20000000,
    ram_bytes: int = 4 << 20,
    defines: tuple[str, ...] = (),
) -> Microcontroller:
    symbols = (("qv_flash_origin", flash), ("qv_ram", ram), ("qv_ram_bytes", ram_bytes))
    arguments = (f"-mcpu={core}", "-mthumb", *flags.split())
    return Microcontroller(
        core,
        "qemu-system-arm",
        ("-M", machine),
        "qemu-system-arm",
        "arm-none-eabi-gcc",
        arguments,
        "cortex_m",
        symbols,
        defines,
    )


def find_microcontroller(name: str, where: str) -> Microcontroller:
    """Returns the machine of this name. Raises BadAddress, which begins with `where`, if there is none."""
    if name not in MICROCONTROLLERS:
        raise BadAddress(f"{where}: no microcontroller {name!r}; known machines are {', '.join(MICROCONTROLLERS)}")
    return MICROCONTROLLERS[name]


def _riscv(name: str, march: str, mabi: str) -> Microcontroller:
    machine, symbols = ("-M", "virt", "-m", "32M", "-bios", "none"), (("qv_ram_bytes", 32 << 20),)
    flags = (f"-march={march}", f"-mabi={mabi}", "-mcmodel=medany", "--specs=picolibc.specs")
    compiler = "riscv64-unknown-elf-gcc"
    return Microcontroller(
        name, "qemu-system-riscv32", machine, "qemu-system-misc", compiler, flags, "riscv_virt", symbols
    )


_SECURE_UART_M33, _UART_M55 = "UART=0x50200000u", "UART=0x59303000u"
MICROCONTROLLERS = {
    "an385": _cortex("cortex-m3", "mps2-an385", "-mfloat-abi=soft"),
    "an386": _cortex("cortex-m4", "mps2-an386", "-mfloat-abi=hard -mfpu=fpv4-sp-d16"),
    "an500": _cortex("cortex-m7", "mps2-an500", "-mfloat-abi=hard -mfpu=fpv5-d16"),
    "an505": _cortex(
        "cortex-m33",
        "mps2-an505",
        "-mfloat-abi=hard -mfpu=fpv5-sp-d16",
        0x10000000,
        0x38000000,
        defines=(_SECURE_UART_M33, "CLOCK_HZ=20000000u"),
    ),
    "an547": _cortex(
        "cortex-m55",
        "mps3-an547",
        "-mfloat-abi=hard",
        0x10000000,
        0x11000000,
        2 << 20,
        (_UART_M55, "CLOCK_HZ=32000000u"),
    ),
    "virt-rv32": _riscv("rv32imac", "rv32imac", "ilp32"),
    "virt-rv32f": _riscv("rv32imafc", "rv32imafc", "ilp32f"),
}


class RunningMicrocontroller:
    """An emulated microcontroller that runs a firmware until stop(). line: path of its serial line. Raises
    BoardUnreachable if QEMU is not on this machine or does not start."""

    def __init__(self, name: str, firmware: Path, deadline: Deadline):
        kind = MICROCONTROLLERS[name]
        program = shutil.which(kind.program)
        if program is None:
            raise BoardUnreachable(
                f"-b qemu-mcu:{name}: no {kind.program} on this machine; apt-get install --no-install-recommends {kind.apt}"
            )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None
        line = ("-chardev", "pty,id=line", "-serial", "chardev:line")
        command = [program, *kind.machine, "-display", "none", "-monitor", "none", *line, "-kernel", str(firmware)]
        try:
            with signals_held():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    **new_group_arguments(KILL),
                )
            self.line = self._wait_for_line(name, deadline)
        except BaseException:
            self.stop()
            raise

    def _read_log(self) -> bytes:
        self._log.seek(0)
        return self._log.read()

    def _wait_for_line(self, name: str, deadline: Deadline) -> str:
        assert self._process is not None
        while True:
            ended = self._process.poll() is not None
            log = self._read_log()
            if found := PTY.search(log.decode(errors="replace")):
                return found[1]
            if ended:
                raise BoardUnreachable(
                    f"-b qemu-mcu:{name}: qemu ended with status {self._process.returncode}: {last_line(log)}"
                )
            time.sleep(min(0.02, deadline.left()))

    def stop(self) -> None:
        """Ends the machine. Does nothing if it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._log.close()
