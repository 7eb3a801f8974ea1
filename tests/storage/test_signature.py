"""Signatures against their definitions: hashlib, and polynomial arithmetic over GF(2) written out here."""

from __future__ import annotations

import hashlib
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env.rabin import RABIN64_POLYNOMIAL
from holdfast.errors import UnknownName
from holdfast.storage import signature
from holdfast.storage.signature import RABIN64, SHA256, Signature, find_signature, register_signature, signature_names
from holdfast.testing.weak_signature import WEAK, WEAK_VALUES

# -- polynomials over GF(2) as numbers: bit i is the coefficient of t^i --------------------------------------------

MODULUS = 1 << 64 | RABIN64_POLYNOMIAL


def remainder(polynomial: int, modulus: int = MODULUS) -> int:
    degree = modulus.bit_length()
    while (excess := polynomial.bit_length() - degree) >= 0:
        polynomial ^= modulus << excess
    return polynomial


def product(a: int, b: int) -> int:
    result = 0
    while b:
        if b & 1:
            result ^= a
        a, b = a << 1, b >> 1
    return result


def greatest_common_divisor(a: int, b: int) -> int:
    while b:
        a, b = b, remainder(a, b)
    return a


def iterated_square(times: int) -> int:
    """t^(2^times) modulo MODULUS."""
    power = 0b10
    for _ in range(times):
        power = remainder(product(power, power))
    return power


def reflected(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)


def rabin64_by_hand(content: bytes) -> int:
    """The content as a polynomial, lowest bit of each byte first, behind the polynomial's own lower coefficients."""
    polynomial = RABIN64_POLYNOMIAL
    for byte in content:
        polynomial = (polynomial << 8) ^ (reflected(byte, 8) << 64)
    return reflected(remainder(polynomial), 64)


def test_the_arithmetic_of_this_test() -> None:
    assert product(0b11, 0b11) == 0b101  # (t + 1)^2 = t^2 + 1
    assert remainder(0b1000, 0b1011) == 0b11  # t^3 = t + 1 modulo t^3 + t + 1
    assert greatest_common_divisor(0b101, 0b11) == 0b11
    assert reflected(0b0010, 4) == 0b0100


# -- sha256 ------------------------------------------------------------------------------------------------------------


@given(st.binary())
def test_sha256_is_hashlibs(content: bytes) -> None:
    assert SHA256.digest(content) == hashlib.sha256(content).digest()
    assert SHA256.digest(memoryview(content)) == SHA256.digest(bytearray(content)) == SHA256.digest(content)
    assert len(SHA256.digest(content)) == SHA256.length


def test_sha256_of_the_standards_example() -> None:
    """FIPS 180-4, "abc"."""
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert SHA256.digest(b"abc").hex() == expected


# -- rabin64 -----------------------------------------------------------------------------------------------------------


def test_the_polynomial_is_irreducible() -> None:
    """Rabin's test for degree 64, whose only prime divisor is 2."""
    assert iterated_square(64) == 0b10
    assert greatest_common_divisor(MODULUS, iterated_square(32) ^ 0b10) == 1


@pytest.mark.parametrize(
    ("schema", "fingerprint"),
    [
        (b'"null"', 0x63DD24E7CC258F8A),
        (b'"boolean"', 0x9F42FC78A4D4F764),
        (b'"int"', 0x7275D51A3F395C8F),
        (b'"string"', 0x8F014872634503C7),
        (b'"bytes"', 0x4FC016DAC3201965),
    ],
)
def test_rabin64_of_the_schemas_published_with_avro(schema: bytes, fingerprint: int) -> None:
    assert int.from_bytes(RABIN64.digest(schema), "big") == fingerprint == rabin64_by_hand(schema)


def test_rabin64_of_nothing_is_avros_empty() -> None:
    assert RABIN64.digest(b"").hex() == "c15d213aa4d7a795"


@given(st.binary(max_size=300))
def test_rabin64_is_the_remainder(content: bytes) -> None:
    expected = rabin64_by_hand(content).to_bytes(8, "big")
    for kind in (bytes, bytearray, memoryview):
        assert RABIN64.digest(kind(content)) == expected
    assert RABIN64.length == 8


# -- weak, and others --------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=8), min_size=WEAK_VALUES + 1, max_size=20, unique=True))
def test_the_weak_signature_collides(contents: list[bytes]) -> None:
    assert len({WEAK.digest(content) for content in contents}) < len(contents)
    assert {len(WEAK.digest(content)) for content in contents} == {WEAK.length}
    assert WEAK.digest(b"ab") == WEAK.digest(b"ba")


def test_an_unknown_signature_names_those_known() -> None:
    with pytest.raises(UnknownName, match=r"unknown signature 'md5': known are .*rabin64, sha256"):
        find_signature("md5")


def test_a_registered_signature_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "_known", dict(signature._known))
    length = Signature("length", 1, lambda content: bytes([len(content) % 256]))
    register_signature(length)
    assert find_signature("length") is length
    assert "length" in signature_names()


def test_a_signature_is_loaded_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "_known", dict(signature._known))
    (tmp_path / "fnv_signature.py").write_text(
        "from holdfast.storage.signature import Signature\n"
        "FNV = Signature('fnv', 1, lambda content: bytes([len(content) % 256]))\n"
    )
    info = tmp_path / "fnv_signature-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fnv-signature\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[holdfast.signatures]\nfnv = fnv_signature:FNV\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [point.name for point in entry_points(group="holdfast.signatures")] == ["fnv"]
    assert "fnv_signature" not in sys.modules
    assert "fnv" in signature_names()
    assert find_signature("fnv").digest(b"abc") == b"\3"
