"""Parses the words of `boards` in suite.toml: a board's name or address, TAGS for any board with these tags, or all:TAGS for
each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qverify.closest_names import closest_names
from qverify_agents.errors import BadAddress
from qverify_agents.resolve_address import check_address
from qverify_agents.schemes import BOARDS, LINKS

from qverify_farm.scheduling.board_filter import BoardFilter, is_tags, tags_of
from qverify_farm.suites.toml_table import Mistakes

BoardTags = Mapping[str, Mapping[str, str]]  # the tags of each board, by board name
ALL = "all"
RUNNER = "runner"  # the tag that names what runs models on a board


@dataclass(frozen=True, slots=True)
class BoardWord:
    """The board of one job. label: the board's part of the job's name. wanted: the value of the database column `wanted`."""

    label: str
    wanted: tuple[str, ...]


def is_address(word: str) -> bool:
    """Returns whether a word is a board address as for -b (local, ssh://HOST) instead of a name in the inventory."""
    scheme = re.match(r"[\w-]*", word)
    name, remainder = (scheme.group(), word[scheme.end() :]) if scheme else ("", word)
    return name in {*BOARDS, *LINKS} and (not remainder or remainder[0] in ":?")


def why_wrong(address: str) -> str:
    """Returns why no board can have this address, or ""."""
    try:
        check_address(address)
    except BadAddress as error:
        return str(error).removeprefix("-b ")
    return ""


def parse_board_words(
    words: Sequence[str], runners: Sequence[str], tags_by_board: BoardTags, where: str, mistakes: Mistakes
) -> list[BoardWord]:
    """Returns the boards that the words stand for, one for each job, each label once. Adds a mistake for every unknown board,
    tag or runner."""
    by_label: dict[str, BoardWord] = {}
    for word in words:
        for runner in runners or ("",):
            for board_word in _parse_word(word, runner, tags_by_board, where, mistakes):
                by_label.setdefault(board_word.label, board_word)
    return list(by_label.values())


def _parse_word(word: str, runner: str, tags_by_board: BoardTags, where: str, mistakes: Mistakes) -> list[BoardWord]:
    if word == ALL or word.startswith(f"{ALL}:"):
        tags = word.partition(":")[2]
        if word != ALL and not is_tags(tags):
            mistakes.add(where, f"boards: {word}: wanted all:KEY=VALUE, or all")
            return []
        tags = _with_runner(tags, runner)
        names = sorted(_fitting(tags, tags_by_board)) if tags else sorted(tags_by_board)
        if not names:
            mistakes.add(where, f"boards: {word}: {_no_board(tags, tags_by_board)}")
        return [BoardWord(name, (name,)) for name in names]
    if is_tags(word):
        tags = _with_runner(word, runner)
        if not _fitting(tags, tags_by_board):
            mistakes.add(where, f"boards: {word}: {_no_board(tags, tags_by_board)}")
        return [BoardWord(tags, (tags,))]
    if word not in tags_by_board:
        mistakes.add(where, f"boards: {word}: {_unknown(word, tags_by_board)}")
        return []
    if runner and tags_by_board[word].get(RUNNER) != runner:
        present = tags_by_board[word].get(RUNNER, "qvrt")
        mistakes.add(where, f"boards: {word}: it is run by {present}, and runners asks for {runner}")
        return []
    return [BoardWord(word, (word,))]


def _with_runner(tags: str, runner: str) -> str:
    pairs = dict(tags_of(tags)) if tags else {}
    if runner:
        pairs[RUNNER] = runner
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def _fitting(tags: str, tags_by_board: BoardTags) -> list[str]:
    board_filter = BoardFilter.of((tags,))
    return [name for name, board_tags in tags_by_board.items() if board_filter.fits(name, board_tags)]


def _no_board(tags: str, tags_by_board: BoardTags) -> str:
    """Returns a message that names the tags that no board has, or that no board has all of the tags."""
    all_tags = sorted(
        {f"{key}={value}" for tags_of_board in tags_by_board.values() for key, value in tags_of_board.items()}
    )
    missing = [pair for pair in (f"{key}={value}" for key, value in tags_of(tags)) if pair not in all_tags]
    if missing:
        key = missing[0].partition("=")[0]
        near = closest_names(missing[0], all_tags) or [tag for tag in all_tags if tag.startswith(f"{key}=")][:5]
        which = "the tag" if len(missing) == 1 else "the tags"
        return f"no board has {which} {' or '.join(missing)}; {_hint(near, all_tags, 'known tags')}"
    return f"no board has all of {tags}" if all_tags else "no board is known; add it to boards.toml"


def _unknown(word: str, tags_by_board: BoardTags) -> str:
    if is_address(word) and (why := why_wrong(word)):
        return why.removeprefix(f"{word}: ")
    return f"no board of this name; {_hint(closest_names(word, tags_by_board), sorted(tags_by_board), 'known')}"


def _hint(near: Sequence[str], known: Sequence[str], label: str) -> str:
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"{label}: {', '.join(known[:8]) or 'none'}"
