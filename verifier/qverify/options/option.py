"""An option as it is declared. The tables beside this file hold every option once, in the order of the help."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

# why a job of a suite or a farm must not have an option
OF_THE_JOB = "it is a field of the job"
REACHES = "how a board is reached and what runs on it belongs in the inventory of its host"
RUNS_CODE = "it runs a command or loads code on the host of the board"

Place = Literal["cli", "api", "suite", "http"]


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole numbers, of which the ends are allowed, too."""

    lowest: int | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """Finite numbers, of which the ends are allowed, too."""

    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True, slots=True)
class FilePath:
    """Paths. exists: the path must exist. file, folder: it may be such a one, if it exists."""

    exists: bool = False
    file: bool = True
    folder: bool = True


Kind = (
    Literal["text", "flag", "boolean", "simulator", "criteria", "board"] | tuple[str, ...] | Whole | Number | FilePath
)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command, or an argument.

    Attributes:
        words: what is typed, in the order of error lines ("-m --model"; "--check/--no-check" for a flag that can be turned
            off); an argument has its name alone.
        help: its line of --help and of the reference page.
        kind: its values: a tuple for one of several words; "board" for one address, of which a second is a mistake.
        default: the value without the option.
        name: of its value in Given; "" for that of the long option.
        many: it may be repeated.
        metavar: how --help shows a value; None for the kind's word.
        required: whether the command is refused without it.
        shown: whether --help shows the default.
        only_cli: it is of the screen or of files that Python writes with Report.save, so only the command line has it.
        keyword: in Python, suites and HTTP; "" for the long option with _ for -.
        hint: type in Python; "" for that of the kind.
        mapping: in Python a mapping of names to values, too.
        listed: in Python a list, too, though it cannot be repeated.
        job: of an option of verify, whether a job of a suite or a farm may have it: "value", "file" for a path of the job's
            files, or the reason why not.
        engine: it may name an engine that runs on the host.
        weakens: it may turn FAILED into PASSED, which the verdict line then says.
        form: its label on the service's form; "" if it is not there.
    """

    words: str
    help: str = ""
    kind: Kind = "text"
    default: Any = None
    name: str = ""
    many: bool = False
    metavar: str | None = None
    required: bool = False
    shown: bool = False
    only_cli: bool = False
    keyword: str = ""
    hint: str = ""
    mapping: bool = False
    listed: bool = False
    job: str = "value"
    engine: bool = False
    weakens: bool = False
    form: str = ""

    def __post_init__(self) -> None:
        long = self.flag.lstrip("-").replace("-", "_")
        object.__setattr__(self, "name", self.name or long)
        object.__setattr__(self, "keyword", self.keyword or long)

    @property
    def flag(self) -> str:
        """The long option, that which turns a flag on; the name of an argument."""
        return max(self.words.partition("/")[0].split(), key=len)

    @property
    def is_argument(self) -> bool:
        return not self.words.startswith("-")

    @property
    def empty(self) -> Any:
        """The value without the option, as Python shows it."""
        if self.many:
            return ()
        return bool(self.default) if self.kind == "flag" else self.default

    @property
    def places(self) -> tuple[Place, ...]:
        """Where the option may be given, if its command is there."""
        if self.only_cli or self.is_argument:
            return ("cli",)
        return ("cli", "api", "suite", "http") if self.job in ("value", "file") else ("cli", "api")

    def but(self, **changes: Any) -> Option:
        """Returns the option as another command has it."""
        return replace(self, **changes)
