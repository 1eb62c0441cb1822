#!/usr/bin/env python3
"""Tests kernels in C against the published vectors of an arithmetic. Needs nothing but Python.

    python vectors/check.py vectors/NAME.json KERNELS.so [OP ...]

The library exports one function for each op, with the op's name:

    int OP(int n, const int32_t *a, const int32_t *b, const double *scales, const int32_t *zeros,
           const int32_t *limits, int count, int32_t *result);

It writes n results and returns 0, or another number if it cannot compute the case. What a, b, scales, zeros and count
are for each op is in vectors/README.md. Exit status: 0 every result is right, 1 one is not, 2 usage, 3 an op was not
exported or not computed, and the others are right.
"""

import ctypes
import json
import sys

INT, DOUBLE = ctypes.c_int32, ctypes.c_double
SHOWN = 3  # wrong results of an op that are printed


def compute(function, case):
    """Returns the kernel's results for a case, or None if it refuses the case."""
    n, b = len(case["result"]), case.get("b")
    result = (INT * n)(*[-(2**31)] * n)
    status = function(
        n,
        (INT * len(case["a"]))(*case["a"]),
        (INT * len(b))(*b) if b else None,
        (DOUBLE * len(case["scales"]))(*case["scales"]),
        (INT * len(case["zeros"]))(*case["zeros"]),
        (INT * 2)(*case["limits"]),
        INT(case["count"]),
        result,
    )
    return list(result) if status == 0 else None


def check(op, vectors, library):
    """Prints how the kernel of an op does. Returns 0 if every result is right, 1 if one is not, 3 if it was not run."""
    try:
        function = getattr(library, op)
    except AttributeError:
        print(f"{op}: not exported by the library")
        return 3
    function.restype = INT
    total = wrong = refused = 0
    for case in vectors["cases"]:
        got = compute(function, case)
        if got is None:
            refused += 1
            continue
        total += len(got)
        for at, (mine, right) in enumerate(zip(got, case["result"])):
            if mine == right:
                continue
            wrong += 1
            if wrong <= SHOWN:
                b = f", {case['b'][at]}" if case.get("b") else ""
                print(f"{op}: {case['what']}: of {case['a'][at]}{b}: got {mine}, wanted {right}")
    skipped = f", {refused} of {len(vectors['cases'])} cases refused" if refused else ""
    print(f"{op} ({vectors['form']}): {total - wrong} of {total} right{skipped}")
    return 1 if wrong else 3 if refused or not total else 0


def main(words):
    if len(words) < 2 or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    path, kernels, *ops = words
    try:
        with open(path, encoding="utf-8") as file:
            vectors = json.load(file)
        library = ctypes.CDLL(kernels)
    except (OSError, ValueError) as error:
        print(f"{error}", file=sys.stderr)
        return 2
    if unknown := [op for op in ops if op not in vectors["ops"]]:
        print(f"{path}: no vectors of {unknown[0]}; it has {', '.join(vectors['ops'])}", file=sys.stderr)
        return 2
    found = [check(op, vectors["ops"][op], library) for op in ops or vectors["ops"]]
    return 1 if 1 in found else max(found, default=3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
