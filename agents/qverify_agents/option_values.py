"""The permitted values of each option of an address. They are checked when the address is parsed, so that links and
boards need not check them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qverify_agents.binaries import MACHINES
from qverify_agents.errors import BadAddress
from qverify_agents.faulty_link import KINDS

ON, OFF = ("1", "true", "yes"), ("0", "false", "no")


@dataclass(frozen=True, slots=True)
class OptionValue:
    """The requirement on the value of an option. words: its description for an error message. fits: returns whether a
    text meets it."""

    words: str
    fits: Callable[[str], bool]


def whole(low: int, high: int, words: str = "a whole number") -> OptionValue:
    """Returns the requirement of a whole number from low to high."""
    return OptionValue(
        f"{words} from {low} to {high}", lambda t: bool(re.fullmatch(r"[0-9]{1,19}", t)) and low <= int(t) <= high
    )


def number(low: float, high: float, words: str = "a number") -> OptionValue:
    """Returns the requirement of a number from low to high."""
    return OptionValue(f"{words} from {low:g} to {high:g}", lambda t: low <= _float(t) <= high)


def one_of(*values: str) -> OptionValue:
    """Returns the requirement of one of these texts."""
    return OptionValue(f"one of {', '.join(values)}", lambda t: t in values)


def matching(pattern: str, words: str) -> OptionValue:
    """Returns the requirement of a text that matches the whole pattern."""
    return OptionValue(words, lambda t: bool(re.fullmatch(pattern, t)))


def _float(text: str) -> float:
    """Returns the number that the text contains, or NaN, which no range includes, if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _compiles(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


TEXT = matching(r"[^\x00-\x1f\x7f]+", "a text without control characters that is not empty")
COORDINATOR = matching(
    r"[A-Za-z0-9][A-Za-z0-9_.-]*(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", "HOST or HOST:PORT"
)
FLAG = OptionValue("1 or 0", lambda t: t.lower() in ON + OFF)
REGEX = OptionValue("a regular expression", _compiles)
BYTES = whole(1, (1 << 62) - 1, "a number of bytes")
VALUES = {
    "accept_new_host_key": FLAG,
    "address_space": BYTES,
    "ahead": whole(0, 8),
    "arch": one_of(*MACHINES),
    "ask": one_of("never"),
    "backend": one_of("paramiko", "openssh"),
    "baud": whole(50, 20_000_000),
    "cache": TEXT,
    "coordinator": COORDINATOR,
    "delegate": TEXT,
    "dtr": FLAG,
    "engine": one_of("docker", "podman"),
    "fault": TEXT,
    "firmware": TEXT,
    "flow": one_of("none", "rtscts"),
    "form": one_of("integer", "original"),
    "host_key": TEXT,
    "identity": TEXT,
    "kernels": one_of("reference", "optimized", "xnnpack"),
    "labgrid_python": TEXT,
    "level": one_of("disable_all", "basic", "extended", "all"),
    "link": one_of("ssh", "serial"),
    "link_fault": one_of(*KINDS),
    "link_probability": number(0, 1),
    "link_seed": whole(0, (1 << 63) - 1),
    "lock": TEXT,
    "login_prompt": REGEX,
    "memory": BYTES,
    "memory_limit": matching(r"[0-9]+[bkmgBKMG]?", "a size such as 256m"),
    "mirror": TEXT,
    "root": TEXT,
    "mode": one_of("console", "direct"),
    "offers": one_of("finals"),
    "packs": FLAG,
    "parity": one_of("N", "E", "O"),
    "password_prompt": REGEX,
    "piece": whole(1, 1_000_000, "a number of bytes"),
    "platform": matching(r"[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?", "a platform such as linux/arm64"),
    "prompt": REGEX,
    "providers": matching(
        r"[\w.]+(,[^,+=]+=[^,+]*)*(\+[\w.]+(,[^,+=]+=[^,+]*)*)*", "execution providers such as XNNPACK,threads=2+CPU"
    ),
    "python": TEXT,
    "quota": matching(r"[1-9][0-9]{0,11}[kmgKMG]?", "a size in bytes, or such as 500k, 64M, 2G"),
    "resource": TEXT,
    "rts": FLAG,
    "runtime": TEXT,
    "ssh_config": TEXT,
    "store": TEXT,
    "threads": whole(0, 256),
    "user": TEXT,
    "wait": number(0, 1e7, "seconds"),
}


def check_option_values(where: str, options: Mapping[str, str]) -> None:
    """Raises BadAddress for the first wrong value. Ignores unknown options, which resolve_address.py refuses."""
    for name, text in options.items():
        requirement = VALUES.get(name)
        if requirement is not None and not requirement.fits(text):
            raise BadAddress(f"{where}: {name}={text[:80]}: wanted {requirement.words}")


def parse_size(text: str) -> int:
    """Returns the number of bytes for a size such as 64M; K, M and G are powers of 1024."""
    shift = {"k": 10, "m": 20, "g": 30}.get(text[-1].lower(), 0)
    return int(text.rstrip("kmgKMG")) << shift


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Returns whether the flag is set and on."""
    return options.get(name, "0").lower() in ON
