"""A serial console as a Shell: logs in, types command lines, finds their output between marks, and sends bytes as
text."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from qverify_agents.console.line import SILENCE_S, ConsoleLine, Port
from qverify_agents.console.link import END_MARK, FAREWELL_S, SHELL_MARK, START_MARK, ConsoleLink, find_running_agent
from qverify_agents.console.upload import Upload
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed, LinkError, LinkTimeout
from qverify_agents.interfaces import CommandResult
from qverify_agents.printable import last_line

LOGIN = r"(?i)(?:^|[\r\n ])[\w.-]* ?login: ?$"
PASSWORD = r"(?i)password[^\r\n]*: ?$"
PROMPT = r"[#$>%] ?(?:\x1b\[[0-9;]*[a-zA-Z])*$"
MAX_RETURNS = 12  # times that Return is typed at a console that shows no prompt
# Numbers of Returns after which a command is tried without a prompt, as messages may hide the prompt.
TRY_WITHOUT_PROMPT = (2, 6)
# For a shell whose terminal was left raw, where Return does not end a line.
RESET_TERMINAL = b"\x03\nstty sane 2>/dev/null\n"
QUIET_COMMAND = (
    ': "${qp1=$PS1}" "${qp2=$PS2}" "${qs=$(stty -g)}"; set -o ignoreeof 2>/dev/null; stty -echo 2>/dev/null; PS1=; PS2='
)
MAX_LINE_CHARACTERS = 300  # characters of a typed command; small shells cut lines at 1024
MAX_LOG_CHARACTERS = 1 << 16


class ConsoleShell:
    """A Shell (interfaces.py) on a serial console. prompt, login, password: regular expressions for the prompts that
    the console shows. user: the user who logs in; the password is read from QVERIFY_SERIAL_PASSWORD and appears in no
    log."""

    def __init__(
        self,
        port: Port,
        where: str,
        user: str = "root",
        prompt: str = PROMPT,
        login: str = LOGIN,
        password: str = PASSWORD,
    ):
        self._port, self._where, self._user = port, where, user
        self._line = ConsoleLine(port, where)
        self._upload = Upload(self._line)
        self._prompt, self._login, self._password = re.compile(prompt), re.compile(login), re.compile(password)
        self._logged_in, self._shown = False, ""
        self._timed_out = False  # whether the last command timed out; close() then does not wait long
        self._log = ""  # what the console printed before and during the login, perhaps a boot log

    def log_in(self, deadline: Deadline) -> None:
        """Logs in and waits for a shell that answers. Raises BoardUnreachable with the last line that the console
        showed if none does."""
        self._shown = ""
        try:
            if self._reach_prompt(deadline):
                self._line.find_checker(deadline)
                self._upload.clear(deadline)
                return
        except LinkTimeout:
            pass
        shown_line = last_line(self._shown, "none, the console is silent")
        raise BoardUnreachable(
            f"{self._where}: no shell prompt on the console (last line: {shown_line}); "
            "is the board running, the baud rate right? Give ?prompt=REGEX for another prompt, ?mode=direct for an agent that owns the line; "
            "the agent of a run that was killed ends by itself after that run's --timeout"
        )

    def _reach_prompt(self, deadline: Deadline) -> bool:
        password_sent, returns, secret = False, 0, os.environ.get("QVERIFY_SERIAL_PASSWORD", "")
        self._port.write(b"\x03\r", deadline)
        while returns < MAX_RETURNS:
            received = self._line.read_until_silent(deadline)
            received = received.replace(secret, "***") if secret else received
            self._log = (self._log + received)[-MAX_LOG_CHARACTERS:]
            self._shown = (self._shown + received)[-4000:]
            tail = self._shown[-200:]
            if self._password.search(tail) or self._login.search(tail):
                is_password_prompt = bool(self._password.search(tail))
                if is_password_prompt and not self._logged_in:  # somebody else, or noise, entered the user name
                    self._shown, returns = "", returns + 1
                    self._port.write(b"\r", deadline)
                    continue
                if password_sent:
                    raise BoardUnreachable(
                        f"{self._where}: the console refuses user {self._user}; set QVERIFY_SERIAL_PASSWORD, or ?user="
                    )
                password_sent, self._shown, self._logged_in = is_password_prompt, "", True
                answer = secret if is_password_prompt else self._user
                self._port.write(answer.encode() + b"\r", deadline)
            elif (self._prompt.search(tail) or returns in TRY_WITHOUT_PROMPT) and self._is_answered(deadline):
                return True
            else:
                returns += 1
                self._port.write(RESET_TERMINAL if returns in TRY_WITHOUT_PROMPT else b"\r", deadline)
        return False

    def _is_answered(self, deadline: Deadline) -> bool:
        """Returns whether a first command is answered, which also turns off the echo and the prompts."""
        try:
            return self._line.run_command(QUIET_COMMAND, deadline.part(5.0), 4.0)[0] == 0
        except LinkTimeout:
            return False

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Runs a command. A command that is too long for a line and the standard input are first sent to files on the
        board."""
        with self._note_timeout():
            return self._run(command, deadline, stdin)

    @contextlib.contextmanager
    def _note_timeout(self) -> Iterator[None]:
        try:
            yield
        except LinkTimeout:
            self._timed_out = True
            raise
        self._timed_out = False

    def _run(self, command: str, deadline: Deadline, stdin: bytes) -> CommandResult:
        files = []
        if len(command) > MAX_LINE_CHARACTERS or "\n" in command:
            files.append(self._upload.send_file(command.encode(), "sh", deadline))
            command = f"sh {files[0]}"
        if stdin:
            files.append(self._upload.send_file(stdin, "in", deadline))
            command = f"{command} <{files[-1]}"
        status, out = self._line.run_command(f"{{ {command}; }} 2>&1", deadline, 8.0)
        if files:
            self._line.run_command(f"rm -f {' '.join(files)}", deadline)
            self._upload.begun = False
        return CommandResult(status, out, out if status else b"")

    def start(self, command: str, deadline: Deadline) -> ConsoleLink:
        """Starts a command on the terminal, which is made raw before anything is sent, because a frame may contain
        Ctrl-C. The terminal's settings are restored in whatever way the command ends."""
        with self._note_timeout():
            return self._start(command.removeprefix("exec "), deadline)

    def _start(self, command: str, deadline: Deadline) -> ConsoleLink:
        # Bytes that arrive late must not reach the shell as commands.
        drain_command = "stty raw -echo min 0 time 4; cat >/dev/null"
        marks = [
            f"printf %s%s\\\\n \\{m[:2]} {m[2:]}" for m in (START_MARK.decode(), END_MARK.decode(), SHELL_MARK.decode())
        ]
        line = f's=$(stty -g); stty raw -echo; {marks[0]}; {command} 2>/dev/null; {marks[1]}; {drain_command}; stty "$s"; {marks[2]}'
        for _ in range(3):
            self._port.write(self._line.guard(line).encode() + b"\r", deadline)
            try:
                self._line.read_until(START_MARK, deadline.part(4.0))
                break
            except LinkTimeout:
                # The command line, or only its mark, was damaged. A running agent would take a second line for noise.
                deadline.left()
                if find_running_agent(self._port, deadline) is not None:
                    break
                self._port.write(b"\x03\r", deadline)
        else:
            raise LinkClosed(
                f"{self._where}: the agent does not start on the console; repeat the run, or restart the board"
            )
        return ConsoleLink(self._port, self._where, self._log)

    def close(self) -> None:
        """Restores the terminal's settings, logs out and removes the files that were sent to the board."""
        deadline = Deadline(6.0 if self._upload.begun else FAREWELL_S if self._timed_out else 3.0, self._where)
        try:
            if self._upload.begun:  # a transfer was cut off; the shell may still wait for the rest
                self._line.interrupt(deadline)
                self._upload.clear(deadline)
            self._port.write(
                b'set +o ignoreeof 2>/dev/null; stty "$qs" 2>/dev/null || stty sane; PS1=$qp1; PS2=$qp2; unset qp1 qp2 qs'
                + (b"; exit" if self._logged_in else b"")
                + b"\r",
                deadline,
            )
            self._line.read_until_silent(deadline.part(2 * SILENCE_S))
        except LinkError:
            pass  # nothing answers any longer
