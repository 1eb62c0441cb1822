"""hb_verifier and hb_model_verifier: Horizon's own commands in its own spelling, as installed scripts. Each translates its
words into those of the main job, which does everything else: what it compares, prints and returns is the main job's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from qverify.cli.main import main, run_program
from qverify.cli.normalize_options import normalize_options

PASSWORD = "QVERIFY_SSH_PASSWORD"
HB_VERIFIER = """hb_verifier: quantized ONNX and model.bin on the host and on a board, as Horizon's command of this name is called

  hb_verifier -m quant.onnx,model.bin -b BOARD_IP [-s True|False] [-i name:img,...] [-c 5] [-r True|False]

  -m, --model             quant.onnx, model.bin, separated by a comma
  -b, --board-ip          the board: an address, or whatever qverify -b takes
  -u, --username          the login on the board
  -p, --password          its password, which others on this machine can see in the list of processes; rather a key, or
                          QVERIFY_SSH_PASSWORD
  -s, --run-sim           run the simulator  [default: True]
  -i, --input-img         inputs; random without, and the verdict says so
  -c, --compare_digits    decimals that must match  [default: 5]
  -r, --dump-all-nodes-results  compare every node  [default: False]

Every other option of `qverify verify --help` is one here, too. Exit status: 0 PASSED, 1 FAILED, 2 usage, 3 INCONCLUSIVE."""
HB_MODEL_VERIFIER = """hb_model_verifier: as Horizon's command of this name is called; it compares every output, not only the first

  hb_model_verifier -q quanti.onnx -b model.bin [-a BOARD_IP] [-i img] [-d 5]

  -q, --quanti_model      the quantized ONNX           -b, --bin_model  the model.bin
  -a, --arm-board-ip      the board: an address, or whatever qverify -b takes
  -i, --input-img         the input; random without, and the verdict says so
  -d, --compare_digits    decimals that must match  [default: 5]

Every other long option of `qverify verify --help` is one here, too. Exit status: 0 PASSED, 1 FAILED, 2 usage, 3 INCONCLUSIVE."""
_VERIFIER = {
    "--board-ip": "--board",
    "-u": "--user",
    "--username": "--user",
    "-p": "password",
    "--password": "password",
}
_MODEL_VERIFIER = {
    "-q": "quanti_model",
    "--quanti-model": "quanti_model",
    "-b": "bin_model",
    "--bin-model": "bin_model",
    "-a": "--board",
    "--arm-board-ip": "--board",
    "-i": "--input-img",
    "--input-img": "--input-img",
    "-d": "--compare-digits",
    "--compare-digits": "--compare-digits",
    "-s": "--run-sim",
    "-r": "--dump-all-nodes-results",
}


class BadWordsError(Exception):
    """A mistake in the words; its text is one line."""


def hb_verifier(argv: list[str] | None = None) -> int:
    """Runs the main job from the words of hb_verifier and returns its exit status."""
    return _run(argv, HB_VERIFIER, translate_verifier)


def hb_model_verifier(argv: list[str] | None = None) -> int:
    """Runs the main job from the words of hb_model_verifier and returns its exit status."""
    return _run(argv, HB_MODEL_VERIFIER, translate_model_verifier)


def _run(argv: list[str] | None, text: str, translate: Callable[[list[str]], tuple[list[str], str | None]]) -> int:
    words = sys.argv[1:] if argv is None else argv
    name = text.partition(":")[0]
    if not words or words[0] in ("-h", "--help"):
        print(text)
        return 0
    if words[0] in ("-v", "--version"):
        return main(["--version"])
    try:
        translated, password = translate(normalize_options(words))
    except BadWordsError as error:
        print(f"{name}: {error}; {name} --help shows its options", file=sys.stderr)
        return 2
    before = os.environ.get(PASSWORD)
    if password is not None:
        os.environ[PASSWORD] = password
    try:
        job = ["verify", *([] if "--criteria" in _names(translated) else ["--criteria", "horizon"]), *translated]
        return run_program(job) if argv is None else main(job)
    finally:
        if password is not None:
            os.environ.pop(PASSWORD, None)
            os.environ |= {PASSWORD: before} if before is not None else {}


def _names(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words}


def _split(words: list[str], known: dict[str, str]) -> list[tuple[str, str | None]]:
    """Returns the known options with their values, and every other word with None. Raises BadWordsError for a known option
    without a value."""
    found: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        short = word[:2] if word[:1] == "-" and word[1:2] not in ("", "-") else ""
        if name in known and (equals or rest):
            if not equals and rest[0] in known:
                raise BadWordsError(f"{name} is followed by {rest[0]}: an unset shell variable?")
            found.append((known[name], value if equals else rest.pop(0)))
        elif name in known:
            raise BadWordsError(f"{name} wants a value")
        elif short in known:
            found.append((known[short], word[2:]))
        else:
            found.append((word, None))
    return found


def translate_verifier(words: list[str]) -> tuple[list[str], str | None]:
    """Returns the words of the main job, and the password. Its other options have the same names there."""
    translated, password = list[str](), None
    for name, value in _split(words, _VERIFIER):
        if name == "password":
            password = value
        else:
            translated += [name] if value is None else [name, value]
    return translated, password


def translate_model_verifier(words: list[str]) -> tuple[list[str], str | None]:
    """Returns the words of the main job; no password. Raises BadWordsError for a short option that it does not have, which
    would mean something else there, for one given twice, and without both models."""
    given: dict[str, str] = {}
    others: list[str] = []
    for name, value in _split(words, _MODEL_VERIFIER):
        if value is None:
            if name.startswith("-") and not name.startswith("--"):
                raise BadWordsError(f"no option {name[:20]}")
            others.append(name)
        elif name in given:
            raise BadWordsError(f"{name.lstrip('-')} is given twice")
        else:
            given[name] = value
    models = [given.pop(name, "") for name in ("quanti_model", "bin_model")]
    if not all(models):
        raise BadWordsError("wanted -q quanti.onnx and -b model.bin")
    if "," in "".join(models):
        raise BadWordsError("-q and -b take one model each; pack model is not supported")
    return ["--model", ",".join(models), *(word for pair in given.items() for word in pair), *others], None
