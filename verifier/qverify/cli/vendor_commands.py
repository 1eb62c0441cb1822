"""The installed scripts hb_verifier and hb_model_verifier, which have the options of Horizon's commands of these names.
Each translates its words into those of the main job, which does everything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from qverify.cli.main import main, run_program
from qverify.cli.normalize_options import normalize_options

PASSWORD_VARIABLE = "QVERIFY_SSH_PASSWORD"
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
    """Raised for a mistake in the words. Its text is one line."""


def hb_verifier(argv: list[str] | None = None) -> int:
    """Runs the main job with the options of hb_verifier and returns its exit status."""
    return _run(argv, HB_VERIFIER, translate_verifier)


def hb_model_verifier(argv: list[str] | None = None) -> int:
    """Runs the main job with the options of hb_model_verifier and returns its exit status."""
    return _run(argv, HB_MODEL_VERIFIER, translate_model_verifier)


def _run(argv: list[str] | None, help_text: str, translate: Callable[[list[str]], tuple[list[str], str | None]]) -> int:
    """Runs the main job with translated words. help_text: begins with the name of the script."""
    words = sys.argv[1:] if argv is None else argv
    name = help_text.partition(":")[0]
    if not words or words[0] in ("-h", "--help"):
        print(help_text)
        return 0
    if words[0] in ("-v", "--version"):
        return main(["--version"])
    try:
        translated, password = translate(normalize_options(words))
    except BadWordsError as error:
        print(f"{name}: {error}; {name} --help shows its options", file=sys.stderr)
        return 2
    password_before = os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        os.environ[PASSWORD_VARIABLE] = password
    try:
        job = ["verify", *([] if "--criteria" in _option_names(translated) else ["--criteria", "horizon"]), *translated]
        return run_program(job) if argv is None else main(job)
    finally:
        if password is not None:
            os.environ.pop(PASSWORD_VARIABLE, None)
            os.environ |= {PASSWORD_VARIABLE: password_before} if password_before is not None else {}


def _option_names(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words}


def _split(words: list[str], known: dict[str, str]) -> list[tuple[str, str | None]]:
    """Returns (name, value) for each known option, and (word, None) for every other word. known: names by spelling.
    Raises BadWordsError for a known option without a value."""
    pairs: list[tuple[str, str | None]] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, value = word.partition("=")
        short = word[:2] if word[:1] == "-" and word[1:2] not in ("", "-") else ""
        if name in known and (equals or remaining):
            if not equals and remaining[0] in known:
                raise BadWordsError(f"{name} is followed by {remaining[0]}: an unset shell variable?")
            pairs.append((known[name], value if equals else remaining.pop(0)))
        elif name in known:
            raise BadWordsError(f"{name} wants a value")
        elif short in known:
            pairs.append((known[short], word[2:]))
        else:
            pairs.append((word, None))
    return pairs


def translate_verifier(words: list[str]) -> tuple[list[str], str | None]:
    """Translates the words of hb_verifier. Returns the words of the main job, in which all other options have the same
    names, and the password, None without one."""
    translated, password = list[str](), None
    for name, value in _split(words, _VERIFIER):
        if name == "password":
            password = value
        else:
            translated += [name] if value is None else [name, value]
    return translated, password


def translate_model_verifier(words: list[str]) -> tuple[list[str], str | None]:
    """Translates the words of hb_model_verifier. Returns the words of the main job, and None (it has no password).
    Raises BadWordsError for a short option that the command does not have (it would have another meaning in the main
    job), for an option given twice, and if a model is missing."""
    options: dict[str, str] = {}
    others: list[str] = []
    for name, value in _split(words, _MODEL_VERIFIER):
        if value is None:
            if name.startswith("-") and not name.startswith("--"):
                raise BadWordsError(f"no option {name[:20]}")
            others.append(name)
        elif name in options:
            raise BadWordsError(f"{name.lstrip('-')} is given twice")
        else:
            options[name] = value
    models = [options.pop(name, "") for name in ("quanti_model", "bin_model")]
    if not all(models):
        raise BadWordsError("wanted -q quanti.onnx and -b model.bin")
    if "," in "".join(models):
        raise BadWordsError("-q and -b take one model each; pack model is not supported")
    return ["--model", ",".join(models), *(word for pair in options.items() for word in pair), *others], None
