from __future__ import annotations

import pytest

from paperclip_launcher.log.stamps import BILLION, stamp_of, strip_alike

SECOND = 1_795_240_800  # 2026-11-21T06:00:00Z


@pytest.mark.parametrize(
    ("line", "at", "width"),
    [
        (b"2026-11-21T06:00:00.000000001Z text", SECOND * BILLION + 1, 31),
        (b"2026-11-21T06:00:00.5Z text", SECOND * BILLION + BILLION // 2, 23),
        (b"2026-11-21T06:00:00Z text", SECOND * BILLION, 21),
        (b"2026-11-21T08:00:00.000000001+02:00 text", SECOND * BILLION + 1, 36),
        (b"2026-11-20T22:30:00-07:30 ", SECOND * BILLION, 26),
        (b"2026-11-21T06:00:00.000000000Z", SECOND * BILLION, 30),
    ],
)
def test_a_stamp_counts_from_1970_whatever_its_zone_and_digits(line, at, width):
    assert stamp_of(line) == (at, width)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"rpc error: code = NotFound desc = an error occurred when try to find container",
        b"2026-11-21 06:00:00Z text",
        b"2026-13-21T06:00:00Z text",
        b"2026-11-21T06:00:61Z text",
        b"2026-11-21T06:00:00.0000000001Z text",
        b"2026-11-21T06:00:00Ztext",
        "\uff12026-11-21T06:00:00Z text".encode(),
    ],
)
def test_what_is_no_stamp_is_none(line):
    assert stamp_of(line) is None


def test_lines_with_stamps_of_one_form_are_stripped_in_one_pass():
    lines = [
        b"2026-11-21T06:00:00.000000002Z b",
        b"2026-11-21T06:00:00.000000001Z ",
        b"2026-11-21T06:00:00.000000003Z \r\xff",
    ]
    assert strip_alike(b"\n".join(lines) + b"\n", lines) == (
        b"b\n\n\r\xff\n",
        SECOND * BILLION + 1,
        SECOND * BILLION + 3,
    )


@pytest.mark.parametrize(
    "odd", [b"failed to watch file", b"2026-11-21T06:00:00.5Z b", b"2026-11-21T07:00:00.000000002+01:00 b", b""]
)
def test_an_odd_line_among_them_needs_the_slow_way(odd):
    lines = [b"2026-11-21T06:00:00.000000002Z a", odd]
    assert strip_alike(b"\n".join(lines) + b"\n", lines) is None
