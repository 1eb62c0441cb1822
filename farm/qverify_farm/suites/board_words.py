"""The words of `boards` in suite.toml: a board's name or address, tags for any one board, all:TAGS for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qverify.closest_names import closest_names
from qverify_agents.schemes import BOARDS, LINKS

from qverify_farm.scheduling.board_filter import BoardFilter, is_tags, tags_of
from qverify_farm.suites.toml_table import Mistakes

Known = Mapping[str, Mapping[str, str]]  # tags by board
ALL = "all"
RUNNER = "runner"  # the tag of what runs on a board


@dataclass(frozen=True, slots=True)
class BoardWord:
    """One job's board. label: in the job's name. wanted: as the database has it."""

    label: str
    wanted: tuple[str, ...]


def is_address(word: str) -> bool:
    """Returns whether a word is an address, as -b takes it, and no name of the inventory: local, ssh://HOST."""
    scheme = re.match(r"[\w-]*", word)
    name, rest = (scheme.group(), word[scheme.end() :]) if scheme else ("", word)
    return name in {*BOARDS, *LINKS} and (not rest or rest[0] in ":?")


def board_words(
    words: Sequence[str], runners: Sequence[str], known: Known, where: str, mistakes: Mistakes
) -> list[BoardWord]:
    """Returns a job's board for each job that the words ask for, each label once. Notes boards, tags and runners that
    there are not."""
    found: dict[str, BoardWord] = {}
    for word in words:
        for runner in runners or ("",):
            for one in _of_word(word, runner, known, where, mistakes):
                found.setdefault(one.label, one)
    return list(found.values())


def _of_word(word: str, runner: str, known: Known, where: str, mistakes: Mistakes) -> list[BoardWord]:
    if word == ALL or word.startswith(f"{ALL}:"):
        tags = word.partition(":")[2]
        if tags and not is_tags(tags):
            mistakes.add(where, f"boards: {word}: wanted all:KEY=VALUE, or all")
            return []
        tags = _with_runner(tags, runner)
        names = sorted(_fitting(tags, known)) if tags else sorted(known)
        if not names:
            mistakes.add(where, f"boards: {word}: {_no_board(tags, known)}")
        return [BoardWord(name, (name,)) for name in names]
    if is_tags(word):
        tags = _with_runner(word, runner)
        if not _fitting(tags, known):
            mistakes.add(where, f"boards: {word}: {_no_board(tags, known)}")
        return [BoardWord(tags, (tags,))]
    if word not in known:
        mistakes.add(where, f"boards: {word}: {_unknown(word, known)}")
        return []
    if runner and known[word].get(RUNNER) != runner:
        has = known[word].get(RUNNER, "qvrt")
        mistakes.add(where, f"boards: {word}: it is run by {has}, and runners asks for {runner}")
        return []
    return [BoardWord(word, (word,))]


def _with_runner(tags: str, runner: str) -> str:
    pairs = dict(tags_of(tags)) if tags else {}
    if runner:
        pairs[RUNNER] = runner
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def _fitting(tags: str, known: Known) -> list[str]:
    wanted = BoardFilter.of((tags,))
    return [name for name, has in known.items() if wanted.fits(name, has)]


def _no_board(tags: str, known: Known) -> str:
    """Returns which of the tags no board has; where each has one, that none has all of them."""
    has = sorted({f"{key}={value}" for tags_of_board in known.values() for key, value in tags_of_board.items()})
    for pair in (f"{key}={value}" for key, value in tags_of(tags)):
        if pair not in has:
            key = pair.partition("=")[0]
            near = closest_names(pair, has) or [one for one in has if one.startswith(f"{key}=")][:5]
            return f"no board has the tag {pair}; {_meant(near, has, 'known tags')}"
    return f"no board has all of {tags}" if has else "no board is known; add it to boards.toml"


def _unknown(word: str, known: Known) -> str:
    return f"no board of this name; {_meant(closest_names(word, known), sorted(known), 'known')}"


def _meant(near: Sequence[str], known: Sequence[str], what: str) -> str:
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"{what}: {', '.join(known[:8]) or 'none'}"
