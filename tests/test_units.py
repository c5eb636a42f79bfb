"""Quantities: engineering notation parses to SI, and printed values parse back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.units import (
    BITS_PER_S,
    BYTES,
    BYTES_PER_S,
    COUNT,
    DIMENSIONS,
    DURATION,
    FLOP_PER_S,
    LENGTH,
    MEMORY,
    MONEY,
    POWER,
    PRICE_PER_HOUR,
    RATE,
    RATIO,
    TOKENS,
    Dimension,
    UnitError,
    bits_from_bytes,
    bytes_from_bits,
    parse,
    show,
)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("400Gbps", BITS_PER_S, 400e9),
        ("3.2Tbps", BITS_PER_S, 3.2e12),
        ("50 GB/s", BITS_PER_S, 400e9),
        ("400Gb/s", BYTES_PER_S, 50e9),
        ("3350GB/s", BYTES_PER_S, 3.35e12),
        ("1.15 GiB/s", BYTES_PER_S, 1.15 * 2**30),
        ("80GB", BYTES, 80e9),
        ("186GiB", BYTES, 186 * 2**30),
        ("989TFLOPS", FLOP_PER_S, 989e12),
        ("989 TFLOP/s", FLOP_PER_S, 989e12),
        ("624TOPS", FLOP_PER_S, 624e12),
        ("2.5M tokens", TOKENS, 2.5e6),
        ("15T", TOKENS, 15e12),
        ("70B", COUNT, 70e9),
        ("1,024", COUNT, 1024),
        ("1_000_000", COUNT, 1e6),
        ("3d", DURATION, 259200),
        ("1d12h", DURATION, 129600),
        ("1h 30m", DURATION, 5400),
        ("45ms", DURATION, 0.045),
        ("20µs", DURATION, 20e-6),
        ("$4000", MONEY, 4000),
        ("$2.5M", MONEY, 2.5e6),
        ("4000 USD", MONEY, 4000),
        ("$88.49/h", PRICE_PER_HOUR, 88.49),
        ("120/s", RATE, 120),
        ("90 requests/min", RATE, 1.5),
        ("700W", POWER, 700),
        ("40m", LENGTH, 40),
        ("90%", RATIO, 0.9),
        ("0.9", RATIO, 0.9),
    ],
)
def test_parse_reads_engineering_notation(text: str, dimension: Dimension, value: float) -> None:
    assert parse(text, dimension) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "dimension", "what"),
    [
        ("80", BYTES, '"80" has no unit'),
        ("80gb", BYTES, '"80gb": unit "gb" is written GB'),
        ("80 parsecs", BYTES, '"80 parsecs": "parsecs" is not a unit of data size'),
        ("80 Gbps", BYTES, '"80 Gbps": "Gbps" is not a unit of data size'),
        ("-3d", DURATION, '"-3d" is negative'),
        ("soon", DURATION, '"soon" is not a duration'),
        ("3d or so", DURATION, '"3d or so": "d or so" is not a unit of duration'),
        ("", BYTES, '"" is not a data size'),
        ("4000", MONEY, '"4000" has no currency'),
        ("€4000", MONEY, '"€4000" has no currency'),
        ("1e999B", BYTES, '"1e999B" is too large'),
        ("nan", COUNT, '"nan" is not a count'),
        ("1,02", COUNT, '"1,02" is not a count'),
        ("1.2.3GB", BYTES, '"1.2.3GB" has no unit'),
        ("1GB 2GB", BYTES, '"1GB 2GB" is not a data size'),
    ],
)
def test_parse_raises_unit_error_with_fix(text: str, dimension: Dimension, what: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text, dimension)
    assert caught.value.what == what
    assert caught.value.fix == f"write it like {dimension.examples}"


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (80e9, BYTES, "80GB"),
        (400e9, BITS_PER_S, "400Gbps"),
        (3.2e12, BITS_PER_S, "3.2Tbps"),
        (989e12, FLOP_PER_S, "989TFLOPS"),
        (15e12, TOKENS, "15T"),
        (259200, DURATION, "3d"),
        (0.045, DURATION, "45ms"),
        (4000, MONEY, "$4k"),
        (88.49, PRICE_PER_HOUR, "$88.5/h"),
        (0.9, RATIO, "90%"),
        (0, BYTES, "0B"),
        (999.9996e9, BYTES, "1TB"),
        (40960 * 2**20, MEMORY, "40GiB"),
        (40960 * 2**20, BYTES, "42.9GB"),
        (512 * 2**20, MEMORY, "512MiB"),
    ],
)
def test_show_formats_with_readable_unit(value: float, dimension: Dimension, text: str) -> None:
    assert show(value, dimension) == text


@given(st.sampled_from(DIMENSIONS), st.floats(min_value=1e-8, max_value=1e17))
def test_shown_quantity_parses_back(dimension: Dimension, value: float) -> None:
    assert parse(show(value, dimension, digits=6), dimension) == pytest.approx(value, rel=1e-5)


@given(st.sampled_from(DIMENSIONS), st.text(max_size=20))
def test_any_text_parses_or_raises_unit_error(dimension: Dimension, text: str) -> None:
    try:
        assert parse(text, dimension) >= 0
    except UnitError as error:
        assert error.what
        assert error.fix


@given(st.floats(min_value=1e-9, max_value=1e18))
def test_bits_and_bytes_convert_both_ways(value: float) -> None:
    assert bits_from_bytes(bytes_from_bits(value)) == value


def test_examples_of_dimensions_parse() -> None:
    for dimension in DIMENSIONS:
        for example in dimension.examples.replace(" or ", ", ").split(", "):
            parse(example, dimension)
