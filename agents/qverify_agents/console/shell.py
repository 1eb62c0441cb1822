"""A serial console as a Shell: logs in, types command lines, finds their answers between marks, sends bytes as text."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from qverify_agents.capabilities import CommandResult
from qverify_agents.console.line import DRY, ConsoleLine, Port
from qverify_agents.console.link import BACK, END, FAREWELL_S, GO, ConsoleLink, agent_there
from qverify_agents.console.upload import Upload
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed, LinkError, LinkTimeout
from qverify_agents.printable import last_line

LOGIN = r"(?i)(?:^|[\r\n ])[\w.-]* ?login: ?$"
PASSWORD = r"(?i)password[^\r\n]*: ?$"
PROMPT = r"[#$>%] ?(?:\x1b\[[0-9;]*[a-zA-Z])*$"
MOST_WAKES = 12  # returns sent to a console that shows no prompt
BLIND = (2, 6)  # after so many unanswered returns a command is tried without a prompt: messages may follow the prompt
SANE = b"\x03\nstty sane 2>/dev/null\n"  # for a shell whose terminal was left raw, where a return does not end a line
QUIET = (
    ': "${qp1=$PS1}" "${qp2=$PS2}" "${qs=$(stty -g)}"; set -o ignoreeof 2>/dev/null; stty -echo 2>/dev/null; PS1=; PS2='
)
LONGEST = 300  # characters of a typed command; small shells cut lines at 1024
MOST_LOG = 1 << 16


class ConsoleShell:
    """A Shell (capabilities.py). prompt, login, password: regular expressions of what the console shows. user: to log
    in as; the password comes from QVERIFY_SERIAL_PASSWORD and is in no log."""

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
        self._late = False  # the last command timed out: close does not wait
        self._log = ""  # what the console printed before the login: perhaps a boot log

    def log_in(self, deadline: Deadline) -> None:
        """Logs in and waits for a shell that answers. Raises BoardUnreachable with the last line that the console
        showed."""
        self._shown = ""
        try:
            if self._to_a_prompt(deadline):
                self._line.find_checker(deadline)
                self._upload.clear(deadline)
                return
        except LinkTimeout:
            pass
        shown = last_line(self._shown, "none, the console is silent")
        raise BoardUnreachable(
            f"{self._where}: no shell prompt on the console (last line: {shown}); "
            "is the board running, the baud rate right? Give ?prompt=REGEX for another prompt, ?mode=direct for an agent that owns the line; "
            "the agent of a run that was killed ends by itself after that run's --timeout"
        )

    def _to_a_prompt(self, deadline: Deadline) -> bool:
        asked_password, wakes, secret = False, 0, os.environ.get("QVERIFY_SERIAL_PASSWORD", "")
        self._port.write(b"\x03\r", deadline)
        while wakes < MOST_WAKES:
            heard = self._line.heard(deadline)
            heard = heard.replace(secret, "***") if secret else heard
            self._log = (self._log + heard)[-MOST_LOG:]
            self._shown = (self._shown + heard)[-4000:]
            tail = self._shown[-200:]
            if self._password.search(tail) or self._login.search(tail):
                word = bool(self._password.search(tail))
                if word and not self._logged_in:  # for a user name that somebody else, or noise, entered
                    self._shown, wakes = "", wakes + 1
                    self._port.write(b"\r", deadline)
                    continue
                if asked_password:
                    raise BoardUnreachable(
                        f"{self._where}: the console refuses user {self._user}; set QVERIFY_SERIAL_PASSWORD, or ?user="
                    )
                asked_password, self._shown, self._logged_in = word, "", True
                answer = secret if word else self._user
                self._port.write(answer.encode() + b"\r", deadline)
            elif (self._prompt.search(tail) or wakes in BLIND) and self._answers(deadline):
                return True
            else:
                wakes += 1
                self._port.write(SANE if wakes in BLIND else b"\r", deadline)
        return False

    def _answers(self, deadline: Deadline) -> bool:
        """Returns whether a first command is answered; it also turns off echo and line editing."""
        try:
            return self._line.typed(QUIET, deadline.part(5.0), 4.0)[0] == 0
        except LinkTimeout:
            return False

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Runs a command. A command too long for a line, and stdin, are put into files on the board first."""
        with self._in_time():
            return self._ran(command, deadline, stdin)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except LinkTimeout:
            self._late = True
            raise
        self._late = False

    def _ran(self, command: str, deadline: Deadline, stdin: bytes) -> CommandResult:
        files = []
        if len(command) > LONGEST or "\n" in command:
            files.append(self._upload.sent(command.encode(), "sh", deadline))
            command = f"sh {files[0]}"
        if stdin:
            files.append(self._upload.sent(stdin, "in", deadline))
            command = f"{command} <{files[-1]}"
        status, out = self._line.typed(f"{{ {command}; }} 2>&1", deadline, 8.0)
        if files:
            self._line.typed(f"rm -f {' '.join(files)}", deadline)
            self._upload.begun = False
        return CommandResult(status, out, out if status else b"")

    def start(self, command: str, deadline: Deadline) -> ConsoleLink:
        """Starts a command on the terminal, which is made raw before anything is written (a frame may contain Ctrl-C).
        The terminal's settings are restored however the command ends."""
        with self._in_time():
            return self._started(command.removeprefix("exec "), deadline)

    def _started(self, command: str, deadline: Deadline) -> ConsoleLink:
        drain = "stty raw -echo min 0 time 4; cat >/dev/null"  # late bytes must not reach the shell as commands
        marks = [f"printf %s%s\\\\n \\{m[:2]} {m[2:]}" for m in (GO.decode(), END.decode(), BACK.decode())]
        whole = f's=$(stty -g); stty raw -echo; {marks[0]}; {command} 2>/dev/null; {marks[1]}; {drain}; stty "$s"; {marks[2]}'
        for _ in range(3):
            self._port.write(self._line.guarded(whole).encode() + b"\r", deadline)
            try:
                self._line.until(GO, deadline.part(4.0))
                break
            except (
                LinkTimeout
            ):  # the line, or only its mark, was damaged; a running agent would read another line as noise
                deadline.left()
                if agent_there(self._port, deadline) is not None:
                    break
                self._port.write(b"\x03\r", deadline)
        else:
            raise LinkClosed(
                f"{self._where}: the agent does not start on the console; repeat the run, or restart the board"
            )
        return ConsoleLink(self._port, self._where, self._log)

    def close(self) -> None:
        """Restores the terminal's settings, logs out and removes our files on the board."""
        deadline = Deadline(6.0 if self._upload.begun else FAREWELL_S if self._late else 3.0, self._where)
        try:
            if self._upload.begun:  # a push was cut off; the shell may still be waiting for the rest
                self._line.interrupt(deadline)
                self._upload.clear(deadline)
            self._port.write(
                b'set +o ignoreeof 2>/dev/null; stty "$qs" 2>/dev/null || stty sane; PS1=$qp1; PS2=$qp2; unset qp1 qp2 qs'
                + (b"; exit" if self._logged_in else b"")
                + b"\r",
                deadline,
            )
            self._line.heard(deadline.part(2 * DRY))
        except LinkError:
            pass  # nothing answers any more
