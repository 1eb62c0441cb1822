"""The runtime's frame reader under AddressSanitizer: the kept corpus, and seeded damage to it."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "board_runtime"
SOURCES = ["fuzz/fuzz_frames.c", "src/agent/frames.c", "src/agent/messages.c", "src/digest/crc32c.c"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
def test_corpus_and_damage(tmp_path: Path) -> None:
    program = tmp_path / "fuzz_frames"
    flags = ["-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DQV_FUZZ_FILES"]
    command = ["gcc", *flags, "-Iinclude", "-Isrc", *SOURCES, "-o", str(program)]
    subprocess.run(command, cwd=RUNTIME, check=True, timeout=120)
    corpus = [p.read_bytes() for p in sorted((RUNTIME / "fuzz" / "corpus_frames").iterdir())]
    chance, files = random.Random(1), []
    for i in range(500):
        data = bytearray(b"".join(chance.choices(corpus, k=chance.randrange(1, 8))))
        for _ in range(chance.randrange(6)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[at] ^= 1 << chance.randrange(8)
            else:
                del data[at : at + chance.randrange(9)]
        files.append(tmp_path / str(i))
        files[-1].write_bytes(bytes([chance.randrange(256)]) + data)
    done = subprocess.run([program, *files], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
