"""What we write, kubectl reads: the strings that break the usual writers, and thousands of random ones."""

from __future__ import annotations

import random
from itertools import chain, product

import pytest

from kubekit.yamlwrite import dump

BOOLEANS = [
    case(word)
    for word in ("yes", "no", "on", "off", "y", "n", "true", "false", "null", "nan", "inf", "infinity")
    for case in (str.lower, str.upper, str.title, str.swapcase)
]
NUMBERS = [
    "0",
    "1",
    "-1",
    "+1",
    "00",
    "08",
    "09",
    "010",
    "0o17",
    "0O17",
    "0x1f",
    "0X1f",
    "0b11",
    "0B11",
    "1_000",
    "0_1",
    "_1",
    "1_",
    "-_1",
    "0x_1",
    "0o_7",
    "1e3",
    "1E3",
    "7e10",
    "12e03",
    "1e-7",
    "1e+7",
    ".5",
    "+.5",
    "-.5",
    "5.",
    "1.5",
    "1.5e3",
    ".1e1",
    "-1e3",
    "+1e3",
    "0e0",
    "1e",
    "1e+",
    "e1",
    ".e1",
    ".",
    "..",
    "...",
    "-",
    "--",
    "---",
    "+",
    "=",
    "==",
    "~",
    "~~",
    "<<",
    "<<<",
    ".inf",
    ".Inf",
    ".INF",
    "+.inf",
    "-.inf",
    "-.INF",
    ".nan",
    ".NaN",
    ".NAN",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "+Inf",
    "Infinity",
    "-Infinity",
    "0x",
    "0o",
    "0b",
    "0x1p-2",
    "0X1P+3",
    "1f",
    "1d",
    "10Gi",
    "500m",
    "12:30",
    "12:30:45",
    "1:1",
    "190:20:30",
    "190:20:30.15",
    "2001-01-01",
    "2001-1-1",
    "2001-12-14t21:59:43.10-05:00",
    "2001-12-14T21:59:43Z",
    "10.0.0.0/8",
    "1.2.3",
    "v1.2",
    "::1",
    "fe80::1",
    "7e10abc",
    "123e456",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "-0",
    "-0.0",
    "0.0",
    "0777",
    "0888",
    "1,000",
    "1,2",
    "0x7fffffffffffffffffff",
]
SYNTAX = [
    "", " ", "  ", "- x", "-", "-x", "? x", "?", "?x", ": x", ":", ":x", "a:", "a: b", "a :b", "a:b", "::",
    "a::b",
    "# x", "#", "a #b", "a#b", "a # b", "@x", "`x", "%x", "%YAML 1.1", "!x", "!!str x", "!", "&x", "&", "*x",
    "*",
    "[x]", "[", "]", "{x}", "{", "}", "{}", "[]", ",", ",x", "a, b", "|", "|-", ">", ">x", "'", '"', "'x'",
    '"x"',
    "it's", 'say "x"', "\\", "\\n", "\\x41", "a\\", "$(X)", "${X}", "{{ x }}", "---", "--- x", "...", "... x",
    "x ---",
    " x", "x ", "x  y", "x   ", "<a>", "a=b", "a&b", "key=value", "/a", "//", "a/b", "(a)", "~a", "a~",
    "null ", "yes ",
    "http://a.example/b?c=d#e", "a\tb", "\t", "\tx", "x\t", "C:\\a", "* * * * *", "*/5 * * * *", "-1 x", "x-",
    "1 2",
]  # fmt: skip
LINES = [
    "\n", "\n\n", "a\n", "a\n\n", "a\n\n\n", "a\nb", "a\nb\n", "a\n\nb", "a\n\n\nb\n\n", "\na", "\n a",
    "\n\na\n", " a\nb",
    "a\n b", "a\n  b\n c\n", "a \nb", "a\nb ", "a\n \nb", "a\n   \nb", "a\n ", "a\n  \n", "a\tb\nc", "\ta\nb",
    "a\n\tb",
    "a\r\nb", "a\rb", "\r", "\r\n", "a\n\r", "#a\nb", "a\n#b", "- a\n- b", "a: b\nc: d\n", "---\na\n",
    "a\n---\nb\n",
    "a\n...\n", "%a\nb", "|\na", "&a\n*a", "'\n'", '"\n"', "\\\n", "é\nü\n", "a\u2028b\nc", "a\n\u0085",
    "a\u0085b\n",
    '#!/bin/sh\nset -eu\nif true; then\n  echo "$x"\nfi\n', "a\n\u00a0b\n", "\u00a0\na", "\u3000a\nb",
    "a\n\ufeffb\n",
]  # fmt: skip
CHARACTERS = [
    *(chr(code) for code in range(0x21)), *(chr(code) for code in range(0x7E, 0xA2)), "é", "e\u0301",
    "ü" * 70, "\u061c",
    "\u200b", "\u200d", "\u200e", "\u202e", "a\u202eb", "\u2028", "\u2029", "a\u2028b", "\u2060", "\u2066",
    "\ufeff",
    "\ufeffa", "a\ufeffb", "\ufdd0", "\ufffd", "\ufffe", "\uffff", "\ud7ff", "\ue000", "\U0001fffe",
    "\U0010ffff",
    "\U00010000", "\U000e0041", "😀", "a 😀 b", "👩‍💻", "🏳️‍🌈", "עברית", "مرحبا", "日本語", "\u00ad", "½", "Ⅷ",
    "\uff11\uff12", "٣",
]  # fmt: skip
LONG = ["x" * 5000, "x " * 3000 + "x", "é" * 3000, "\u2028" * 500, "a\n" * 2000, '"' * 2000]
NASTY = list(dict.fromkeys(chain(BOOLEANS, NUMBERS, SYNTAX, LINES, CHARACTERS, LONG)))

ATOMS = [
    *NASTY[: len(BOOLEANS) + len(NUMBERS)], *SYNTAX, *"\n\n\n\n    \t\r:#-?,[]{}&*!|>'\"%@`\\~=<./_+",
    "\u0085", "\u2028", "\ufeff",
    "a", "b", "Z", "0", "1", "9", "e", "é", "😀", ": ", " #", "- ", "\n  ", "\n ", " \n",
]  # fmt: skip


def config_map(data: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nasty"}, "data": data}


def random_texts(count: int, seed: int) -> list[str]:
    source = random.Random(seed)
    texts = ["".join(source.choices(ATOMS, k=source.randint(1, 8))) for _ in range(count // 2)]
    points = [chr(source.randrange(0x250)) for _ in range(4000)] + [
        chr(source.randrange(0xE000, 0x110000)) for _ in range(2000)
    ]
    return texts + ["".join(source.choices(points, k=source.randint(1, 20))) for _ in range(count - count // 2)]


def random_tree(source: random.Random, depth: int) -> object:
    kind = source.random()
    if depth and kind < 0.35:
        return {source.choice(NASTY): random_tree(source, depth - 1) for _ in range(source.randint(0, 4))}
    if depth and kind < 0.6:
        return [random_tree(source, depth - 1) for _ in range(source.randint(0, 4))]
    return source.choice([*source.sample(NASTY, 8), None, True, False, 0, -7, 2**53, -(2**63), 2**63 - 1, 0.5, 1e-7])


def test_the_nasty_strings_are_many():
    assert len(NASTY) > 350


def test_nasty_strings_come_back_as_values(read_by_go):
    wanted = config_map({f"k{index}": text for index, text in enumerate(NASTY)})
    assert read_by_go(dump(wanted)) == wanted


def test_nasty_strings_come_back_as_keys_and_items(read_by_go):
    wanted = config_map({text: [text, [text], {text: text}] for text in NASTY})
    assert read_by_go(dump(wanted)) == wanted


def test_random_strings_come_back(read_by_go):
    wanted = config_map({f"k{index}": text for index, text in enumerate(random_texts(4000, seed=20261120))})
    assert read_by_go(dump(wanted)) == wanted


def test_random_trees_come_back(read_by_go):
    source = random.Random(7)
    wanted = config_map({f"k{index}": random_tree(source, 5) for index in range(300)})
    assert read_by_go(dump(wanted)) == wanted


def test_numbers_keep_type_and_digits(read_by_go):
    numbers = [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.1, 1.5, -2.25, 1e22, 1.5e300, 5e-324, 1e-7]
    tree = read_by_go(dump(config_map({"numbers": numbers})))
    back = tree["data"]["numbers"]
    assert back == numbers
    assert [type(number) for number in back[:7]] == [int] * 7


def test_every_character_below_u3000_comes_back_in_the_middle_of_a_word(read_by_go):
    text = [f"a{chr(code)}b" for code in range(0x3000)]
    assert read_by_go(dump(config_map({"text": text})))["data"]["text"] == text


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
def test_blocks_end_as_they_did_wherever_they_stand(read_by_go, end):
    text = f"a\n\n  b{end}"
    wanted = config_map({"first": text, "list": [text, [text, text], {"a": text, "b": [text]}], "z": text})
    assert read_by_go(dump(wanted)) == wanted


def test_keys_of_any_length_come_back(read_by_go):
    sizes = (100, 999, 1000, 1001, 1022, 1023, 1024, 1025, 5000)
    values: list[object] = ["x", {"a": 1}, ["a", "b"], {}, [], "a\nb\n"]
    wanted = config_map(
        {char * size + str(at): value for char, size, (at, value) in product("xé", sizes, enumerate(values))}
    )
    assert read_by_go(dump(wanted)) == wanted
