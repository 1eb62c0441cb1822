"""The worker's own CRC-32C and XXH64 give what the libraries give."""

from __future__ import annotations

import google_crc32c
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from qverify_worker.checksums import crc32c, xxh64, xxh64_in_python

LENGTHS = [0, 1, 3, 4, 7, 8, 12, 31, 32, 33, 63, 64, 1023, 1024, 4095, 4096, 4097, 5121, (1 << 20) + 17]


@pytest.mark.parametrize("length", LENGTHS)
def test_of_every_kind_of_length(length):
    data = bytes((7 * i * i + i // 251) & 255 for i in range(length))
    assert crc32c(data) == google_crc32c.value(data)
    assert xxh64_in_python(data) == xxh64(data) == xxhash.xxh64_intdigest(data)


@given(st.binary(max_size=9000), st.integers(0, 9000))
def test_a_crc_is_continued(data, at):
    assert crc32c(data[at:], crc32c(data[:at])) == google_crc32c.value(data)
