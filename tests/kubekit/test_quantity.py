from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubekit.quantity import QuantityError, canonical, compare, parse

QUANTITIES = st.builds(
    lambda sign, number, suffix: sign + number + suffix,
    st.sampled_from(["", "-", "+"]),
    st.from_regex(r"\A(?:[0-9]{1,6}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})\Z"),
    st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+12", "e0"]),
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("1", 1), ("+1", 1), ("-1", -1), ("500m", Fraction(1, 2)), ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", 5), ("1n", Fraction(1, 10**9)), ("1u", Fraction(1, 10**6)), ("1k", 10**3), ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12), ("1P", 10**15), ("1E", 10**18), ("1Ki", 2**10), ("1Mi", 2**20), ("1.5Gi", 3 * 2**29),
        ("1Ti", 2**40),
        ("1Pi", 2**50), ("1Ei", 2**60), ("1e3", 1000), ("1E3", 1000), ("1e-3", Fraction(1, 1000)),
        ("12.5E+2", 1250),
        (2, 2), (0.1, Fraction(1, 10)), (1e-7, Fraction(1, 10**7)), (1e22, 10**22),
        ("0.1Ki", Fraction(1024, 10)), ("007", 7),
    ],
)  # fmt: skip
def test_a_quantity_is_an_exact_number(text, number):
    assert parse(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no quantity"),
        ("m", "is no quantity"),
        (".", "is no quantity"),
        ("1 Gi", "is no quantity"),
        (" 1", "is no quantity"),
        ("1,5", "is no quantity"),
        ("--1", "is no quantity"),
        ("1\n", "is no quantity"),
        ("٣", "is no quantity"),
        ("1.2.3", "is no quantity"),
        ("0x10", "is no quantity"),
        ("1K", 'the unit "K", which Kubernetes does not know; write "1k"'),
        ("1GB", 'write "1G"'),
        ("2gi", 'write "2Gi"'),
        ("1e", 'the unit "e"'),
        ("1Kim", 'the unit "Kim"'),
        ("1e1000000000", "an exponent beyond 100"),
        ("1e-101", "an exponent beyond 100"),
        ("1" * 101, "a quantity of 101 characters"),
        (True, "not bool"),
        (None, "not NoneType"),
        (float("nan"), "is no quantity"),
        (float("inf"), "is no quantity"),
    ],
)
def test_what_is_no_quantity_is_refused(text, message):
    with pytest.raises(QuantityError, match=message):
        parse(text)


def test_quantities_are_compared_as_numbers():
    assert compare("1Gi", "1G") == 1
    assert compare("1000m", 1) == 0
    assert compare("999Ki", "1Mi") == -1


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("0.5", "500m"), ("2048Mi", "2Gi"), ("1000", "1k"), ("1024", "1024"), ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1.1Ki", "1126400m"), ("512Ki", "512Ki"), ("0Gi", "0"), ("0.0000000001", "1n"),
        ("-0.0000000001", "-1n"),
        ("1500e-3", "1500e-3"), ("1e30", "1e30"), ("0.1m", "100u"), ("1000E", "1000E"), (0.25, "250m"),
        (2, "2"),
    ],
)  # fmt: skip
def test_the_form_of_the_api_server(text, form):
    assert canonical(text) == form


@settings(deadline=None)
@given(QUANTITIES)
def test_the_canonical_form_is_the_same_number_to_the_nano(text):
    exact, rounded = parse(text), parse(canonical(text))
    assert 0 <= abs(rounded) - abs(exact) < Fraction(1, 10**9)
    assert canonical(canonical(text)) == canonical(text)


@settings(deadline=None)
@given(QUANTITIES, QUANTITIES)
def test_comparing_goes_both_ways(left, right):
    assert compare(left, right) == -compare(right, left)
    assert (compare(left, right) == 0) == (parse(left) == parse(right))


def test_kubectl_gives_back_the_same_forms(kubectl):
    source = random.Random(3)
    numbers = [
        "1",
        "0.5",
        "1.25",
        "100",
        "1024",
        "1536",
        "2048",
        "1000",
        "250",
        "0.001",
        "12.345",
        "0",
        "-4096",
        "999999",
    ]
    units = ["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"]
    texts = [*source.sample([number + unit for number in numbers for unit in units], 120)]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "image": "x",
                    "resources": {"limits": {f"a.example/r{index}": text for index, text in enumerate(texts)}},
                },
            ],
        },
    }
    done = kubectl(json.dumps(pod), "set", "resources", "--requests=cpu=1", "-o", "json")
    assert done.returncode == 0, done.stderr.decode()
    limits = json.loads(done.stdout)["spec"]["containers"][0]["resources"]["limits"]
    back = [limits[f"a.example/r{index}"] for index in range(len(texts))]
    assert [canonical(text) for text in back] == [canonical(text) for text in texts]
    # Where Go makes a form of its own instead of giving back what was written, it is ours.
    changed = [(text, form) for text, form in zip(texts, back, strict=True) if form != text]
    assert len(changed) > 10
    assert changed == [(text, canonical(text)) for text, _ in changed]
