#!/usr/bin/env python3
"""Tests kernels in C against the published vectors of an arithmetic. Needs nothing but Python 3.8 or newer.

    python vectors/check.py vectors/NAME.json KERNELS.so [OP ...]     --list: the functions, and what is left out

The library exports one function for each op. Its name is in the vectors ("conv, of uint8": conv_of_uint8):

    int OP(int32_t n, const int32_t *a, const int32_t *b, const double *scales, const int32_t *zeros,
           const int32_t *limits, int32_t count, int32_t *result);

It writes n results and returns 0, or another number if it cannot compute the case. vectors/README.md says what a, b,
scales, zeros, limits and count are for each op. Exit status: 0 every result is right, 1 one is not, 2 usage, or a file
that is none, 3 an op was not exported or a case not computed, and everything else is right.
"""

import ctypes
import json
import os
import sys

INT, DOUBLE = ctypes.c_int32, ctypes.c_double
P_INT, P_DOUBLE = ctypes.POINTER(INT), ctypes.POINTER(DOUBLE)
FORMAT = 1
SHOWN = 3  # wrong results of an op that are printed
MARK, BEYOND = -(2**31) + 77, 16  # what results hold before the call, and how many more there are than may be written


class Bad(Exception):
    """The vectors or the library cannot be used."""


def whole(values, bits):
    return isinstance(values, list) and all(type(v) is int and -(2**bits) <= v < 2**bits for v in values)


def read(path):
    """Returns the vectors of a file, checked so far that no case can mislead a kernel."""
    try:
        with open(path, encoding="utf-8") as file:
            vectors = json.load(file)
        if vectors["format"] != FORMAT:
            raise Bad(f"{path}: format {vectors['format']!r}, wanted {FORMAT}: take the check.py that came with it")
        for op, one in vectors["ops"].items():
            if not (isinstance(one["form"], str) and str.isidentifier(one["function"]) and one["cases"]):
                raise Bad(f"{path}: {op}: no form, function or case")
            for case in one["cases"]:
                lists = [case["a"], case.get("b", []), case["zeros"], case["limits"], case["result"], [case["count"]]]
                if not all(whole(v, 31) for v in lists) or not all(isinstance(s, float) for s in case["scales"]):
                    raise Bad(f"{path}: {op}: {case['what']}: a list of numbers is damaged")
                n, types, a = len(case["result"]), len(case["types"]), len(case["a"])
                if not n or not a or len(case["limits"]) != 2 + types or (a % n and n % a):
                    raise Bad(f"{path}: {op}: {case['what']}: lists of other lengths than their results have")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"{error}" if isinstance(error, OSError) else f"{path}: not vectors ({type(error).__name__}: {error})"
        raise Bad(" ".join(said.split())[:300]) from None
    return vectors


def compute(function, case):
    """Returns the kernel's results for a case, or None if it refuses the case."""
    n, b = len(case["result"]), case.get("b")
    result = (INT * (n + BEYOND))(*[MARK] * (n + BEYOND))
    status = function(
        n,
        (INT * len(case["a"]))(*case["a"]),
        (INT * len(b))(*b) if b else None,
        (DOUBLE * len(case["scales"]))(*case["scales"]),
        (INT * len(case["zeros"]))(*case["zeros"]),
        (INT * len(case["limits"]))(*case["limits"]),
        case["count"],
        result,
    )
    if any(v != MARK for v in result[n:]):
        raise Bad(f"{case['what']}: the kernel writes beyond its {n} results")
    return result[:n] if status == 0 else None


def operands(case, at):
    """Returns the operands of a result in words."""
    n, parts = len(case["result"]), [case["a"], case.get("b") or []]
    some = [part[at * (len(part) // n) : (at + 1) * (len(part) // n)] for part in parts]
    return ", ".join(str(v[0]) if len(v) == 1 else f"{len(v)} values from {v[0]} on" for v in some if v) or "the input"


def check(op, vectors, library):
    """Prints how the kernel of an op does. Returns 0 if every result is right, 1 if one is not, 3 if it was not run."""
    try:
        function = getattr(library, vectors["function"])
    except AttributeError:
        print(f"{op}: {vectors['function']} is not exported by the library")
        return 3
    function.restype = ctypes.c_int
    function.argtypes = [INT, P_INT, P_INT, P_DOUBLE, P_INT, P_INT, INT, P_INT]
    total = wrong = refused = 0
    for case in vectors["cases"]:
        got = compute(function, case)
        if got is None:
            refused += 1
            continue
        total += len(got)
        for at, right in enumerate(case["result"]):
            mine = got[at]
            if mine == right:
                continue
            wrong += 1
            if wrong <= SHOWN:
                said = "nothing" if mine == MARK else mine
                print(f"{op}: {case['what']}: result {at}, of {operands(case, at)}: got {said}, wanted {right}")
    skipped = f", {refused} of {len(vectors['cases'])} cases not computed" if refused else ""
    print(f"{op} ({vectors['form']}): {total - wrong} of {total} right{skipped}")
    return 1 if wrong else 3 if refused or not total else 0


def main(words):
    listed = "--list" in words
    words = [w for w in words if w != "--list"]
    if len(words) < (1 if listed else 2) or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        vectors = read(words[0])
        ops, named = vectors["ops"], {name: op for op, one in vectors["ops"].items() for name in (op, one["function"])}
        if listed:
            print(*(f"{one['function']}: {op}: {one['form']}" for op, one in ops.items()), sep="\n")
            print(*(f"left out: {op}: {why}" for op, why in vectors.get("left_out", {}).items()), sep="\n")
            return 0
        for word in words[2:]:
            if word not in named:
                raise Bad(
                    f"{words[0]}: no vectors of {word}; it has {', '.join(one['function'] for one in ops.values())}"
                )
        try:
            library = ctypes.CDLL(os.path.abspath(words[1]))
        except OSError as error:
            raise Bad(f"{words[1]}: cannot be loaded by this Python ({error})") from None
        found = [check(op, ops[op], library) for op in dict.fromkeys(named[w] for w in words[2:] or ops)]
    except Bad as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if 1 in found else max(found, default=3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
