"""Reads .tflite and .espdl files that were changed at random: each must be read, or refused in one line, in time and in
bounded memory. Some are converted, too."""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]
from qverify.errors import BlockedError, QVerifyError  # noqa: E402
from qverify.tflite_model.convert import convert  # noqa: E402
from qverify.tflite_model.read_tflite import read_tflite  # noqa: E402
from qverify.tflite_model.repair import repair  # noqa: E402
from qverify.vendor_quantization import write_quantized  # noqa: E402
from qverify.vendor_quantization.espdl_parts.read_espdl import read_espdl  # noqa: E402

from benchmarks.measure import show_figures  # noqa: E402
from tests import tflite_operators  # noqa: E402
from tests.tflite_cases import int16_cases  # noqa: E402
from tests.tflite_files import conv, dense  # noqa: E402

Read = Callable[[bytes, bool], None]
GOOD = ("read", "refused")
LONGEST_S = 30  # of one file
CUT_SHARE, WORD_SHARE, COPY_SHARE = 0.1, 0.4, 0.15  # of the ways to change a file; the rest changes bytes
BYTES = (0, 1, 2, 4, 127, 128, 255)
WORDS = (0, 1, 2, 4, 8, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4)
ESPDL = ROOT / "tests" / "plain" / "espdl_files"
GROUPS = (
    "movements",
    "tables",
    "elementwise",
    "reductions",
    "products",
    "resizes",
    "norms",
)  # of tests.tflite_operators


def read_one_tflite(data: bytes, on: bool) -> None:
    """Reads a .tflite as the tool does. on: whether to convert it."""
    model = read_tflite(repair(data)[0], "m.tflite")
    if on:
        convert(model)


def read_one_espdl(data: bytes, on: bool) -> None:
    """Reads an .espdl as the tool does. on: whether to write its ONNX."""
    if on:
        write_quantized(b"", {"m.espdl": data})
    else:
        read_espdl(data, "m.espdl")


def tflite_files(folder: str | None) -> Iterator[bytes]:
    """Yields whole .tflite files: those of the tests, and those of a folder."""
    yield dense()
    yield dense(per_channel=True, dtype="int8", rows=3)
    yield conv()
    yield conv(depthwise=True, dtype="int8")
    for group in GROUPS:
        for k, case in enumerate(getattr(tflite_operators, group)()):
            yield case.written(case.dtypes[0], k)
    for k, made in enumerate(int16_cases().values()):
        if len(data := made(k)) < 1 << 16:
            yield data
    for path in sorted(Path(folder).glob("*.tflite")) if folder else ():
        yield path.read_bytes()


def espdl_files(folder: str | None) -> Iterator[bytes]:
    """Yields whole .espdl files: those of the tests, and those of a folder."""
    for path in (*sorted(ESPDL.glob("*.espdl")), *(sorted(Path(folder).glob("*.espdl")) if folder else ())):
        yield path.read_bytes()


READERS: dict[str, tuple[Read, Callable[[str | None], Iterator[bytes]]]] = {
    "tflite": (read_one_tflite, tflite_files),
    "espdl": (read_one_espdl, espdl_files),
}


def changed(whole: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Returns a file in which something is different: cut, one or several bytes, words or a part of another file."""
    data, way = bytearray(whole), rng.random()
    if way < CUT_SHARE:
        return bytes(data[: int(rng.integers(0, len(data)))])
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data)))
        if way < CUT_SHARE + WORD_SHARE:
            at -= at % 4
            data[at : at + 4] = int(rng.choice(WORDS)).to_bytes(4, "little")
        elif way < CUT_SHARE + WORD_SHARE + COPY_SHARE:
            size, start = int(rng.integers(1, 65)), int(rng.integers(0, len(other)))
            part = other[start : start + size]
            data[at : at + len(part)] = part
        else:
            data[at] = int(rng.choice(BYTES)) if rng.random() < 0.5 else int(rng.integers(0, 256))
    return bytes(data)


def outcome(read: Read, data: bytes, on: bool) -> str:
    """Returns "read", "refused", or what went wrong with one file."""
    signal.alarm(LONGEST_S)
    try:
        read(data, on)
    except BlockedError:  # a line for each kind of operators
        return "refused"
    except QVerifyError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except TimeoutError:
        return f"more than {LONGEST_S} s"
    except Exception as error:  # anything else is what this looks for
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "read"


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError


def peak_mb() -> float:
    """Returns the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fuzz(reader: str, seed: int, count: int, every: int, folder: str | None, found: Path) -> dict[str, float]:
    """Returns the figures of one reader, and prints each failure. every: which of the files are converted. found: where files that
    fail go."""
    read, files = READERS[reader]
    whole = list(dict.fromkeys(files(folder)))
    for data in whole:
        outcome(read, data, True)  # imports and caches
    start, before = time.process_time(), peak_mb()
    rng, outcomes = np.random.default_rng([seed, len(whole)]), Counter[str]()
    for k in range(count):
        data = changed(whole[int(rng.integers(0, len(whole)))], whole[int(rng.integers(0, len(whole)))], rng)
        result = outcome(read, data, k % every == 0)
        outcomes[result if result in GOOD else "wrong"] += 1
        if result not in GOOD:
            found.mkdir(parents=True, exist_ok=True)
            path = found / f"{reader}-{seed}-{k}"
            path.write_bytes(data)
            print(f"{reader}: {path}: {result[:200]}", flush=True)
    return {
        "files": len(whole),
        "mutations": count,
        "converted": -(-count // every),
        "read": outcomes["read"],
        "refused": outcomes["refused"],
        "wrong": outcomes["wrong"],
        "processor_s": round(time.process_time() - start, 1),
        "more_peak_mb": round(peak_mb() - before, 1),
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("scripts/bench readers", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20000, help="files of each reader")
    parser.add_argument("--every", type=int, default=20, help="which of them are converted, too")
    parser.add_argument("--reader", choices=READERS, action="append")
    parser.add_argument("--files", help="a folder with further whole files")
    parser.add_argument(
        "--found", type=Path, default=ROOT / ".cache" / "fuzz" / "readers", help="where failing files go"
    )
    parser.add_argument("--json", help="a file that receives the figures")
    given = parser.parse_args(words)
    signal.signal(signal.SIGALRM, _too_long)
    figures = {
        r: fuzz(r, given.seed, given.count, given.every, given.files, given.found) for r in given.reader or READERS
    }
    for reader, row in figures.items():
        print(reader, ", ".join(f"{k} {v}" for k, v in row.items()))
    show_figures({f"{r} {k}": v for r, row in figures.items() for k, v in row.items()}, given.json)
    return int(any(row["wrong"] for row in figures.values()))
