"""Our quantities and selectors against those of the API server: the same texts, labels and selectors to both."""

from __future__ import annotations

import os
import random
import re
from typing import Any

import pytest

from kubekit import quantity, selectors
from tests.e2e.api import Api

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("ADMISSION_SEED", "20261121"))
NAMESPACE = "semantics-values"


@pytest.fixture(scope="module")
def api(cluster):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    with Api(cluster.kubeconfig) as found:
        assert found.create(namespace).fine
        yield found
        found.delete(namespace)


SIGNS, UNITS = ("", "", "", "", "+", "-"), ("", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
EXPONENTS = ("e3", "E3", "e-3", "e+2", "E-9", "e18", "e0", "e-10", "E10")
NUMBER = re.compile(r"[+-]?\.?[0-9]")
WRONG_UNITS = ("K", "ki", "KB", "gi", "mi", "i", "e", "E+", "e1.5", "Zi", "%", "m m", "Kii")


def quantities(draw: random.Random) -> list[str]:
    found = ["0", "-0", "+0", "00", ".", "", "-", "1.", ".5", "0.0000000001", "1n", "1.5n", "100000000000000000000"]
    found += [
        "8Ei",
        "7.5Ei",
        "9223372036854775807",
        "9223372036854775808",
        "0.5Ki",
        "1.5Ki",
        "1.25Gi",
        "0.1Ki",
        "1e-20",
    ]
    found += [
        "\u0661",
        "1_000",
        "0x10",
        "1,5",
        "1 Gi",
        "1..5",
        "--1",
        "NaN",
        "Inf",
        "null",
        "1\n",
        "\t1",
        "1e1e1",
        "1E6",
        "1Ee",
    ]
    for _ in range(330):
        number = draw.choice(
            (str(draw.randint(0, 9)), str(draw.randint(0, 10**12)), f"{draw.uniform(0, 5000):.{draw.randint(0, 11)}f}")
        )
        unit = draw.choices((UNITS, EXPONENTS, WRONG_UNITS), (6, 2, 1))[0]
        found.append(f"{draw.choice(SIGNS)}{number}{draw.choice(unit)}")
    found += ["".join(draw.choices("0123456789.eEnumkKMGi+-", k=draw.randint(1, 6))) for _ in range(120)]
    return found


def test_quantities(api):
    """A kind whose quantity is only read, not rounded to thousandths; what cannot be read is a bad request there."""
    namespace, outcomes = NAMESPACE, []
    capacity = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "storageClassName": "fast"}
    path = f"/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities"
    wrong = []
    for text in quantities(random.Random(SEED + 4)):
        body = {**capacity, "metadata": {"generateName": "tried-"}, "capacity": text}
        said = api.call("POST", path, body, dryRun="All")
        try:
            ours = quantity.canonical(text)
        except quantity.QuantityError:
            ours = None
        reads = said.code != 400
        theirs = said.body.get("capacity") if said.fine else None
        outcomes.append(reads)
        if ours is None and theirs == "0" and not NUMBER.match(text.strip()):
            continue  # a unit without a number, which the documented grammar does not know, is 0 there
        # What is canonical but for its sign or the case of its exponent is given back as it was written.
        if reads is (ours is None) or (theirs not in (None, text.strip(), ours)):
            wrong.append((text, ours, said.code, theirs, said.message[:120]))
        elif theirs is not None and quantity.canonical(theirs) != ours:
            wrong.append((text, ours, said.code, theirs, "another number"))
    assert not wrong, "\n".join(map(str, wrong))
    assert 300 < sum(outcomes) < len(outcomes) - 30


KEYS = ("app", "tier", "example.com/team", "x")
VALUES = ("a", "b", "a-1", "B.c_d", "")


def test_selectors_pick_what_the_server_picks(api):
    draw, namespace = random.Random(SEED + 5), NAMESPACE
    labelled = {f"m{index}": {key: draw.choice(VALUES) for key in KEYS if draw.random() < 0.6} for index in range(30)}
    for name, labels in labelled.items():
        metadata = {"name": name, "namespace": namespace, "labels": {**labels, "of": "test"}}
        assert api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).fine
    sizes = set()
    for _ in range(150):
        selector, query = one_selector(draw)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        said = api.call("GET", path, labelSelector=",".join(["of=test", *query]))
        assert said.fine, (query, said.message)
        theirs = {item["metadata"]["name"] for item in said.body["items"]}
        ours = {name for name, labels in labelled.items() if selectors.matches(selector, labels)}
        assert ours == theirs, (selector, query)
        sizes.add(len(ours))
    assert len(sizes) > 10


def one_selector(draw: random.Random) -> tuple[dict[str, Any], list[str]]:
    """A selector, and the same as a query."""
    selector: dict[str, Any] = {}
    query = []
    if draw.random() < 0.4:
        key, value = draw.choice(KEYS), draw.choice(VALUES)
        selector["matchLabels"] = {key: value}
        query.append(f"{key}={value}")
    for _ in range(draw.randint(0, 2)):
        key, operator = draw.choice(KEYS), draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: dict[str, Any] = {"key": key, "operator": operator}
        if operator in {"In", "NotIn"}:
            expression["values"] = draw.sample([one for one in VALUES if one], draw.randint(1, 3))
            query.append(f"{key} {operator.lower()} ({','.join(expression['values'])})")
        else:
            query.append(key if operator == "Exists" else f"!{key}")
        selector.setdefault("matchExpressions", []).append(expression)
    return selector, query


def test_selectors_that_the_server_refuses(api):
    draw, namespace, outcomes = random.Random(SEED + 6), NAMESPACE, []
    for _ in range(120):
        expression: dict[str, Any] = {"key": draw.choice(KEYS)}
        expression["operator"] = draw.choice(("In", "NotIn", "Exists", "DoesNotExist", "in", "Gt", ""))
        values = draw.choice((None, [], ["a"], ["a", "b"]))
        expression |= {} if values is None else {"values": values}
        selector = {"matchLabels": {"app": "a"}, "matchExpressions": [expression]}
        if draw.random() < 0.1:
            selector["matchNames"] = {"a": "b"}
        try:
            selectors.matches(selector, {})
            ours = True
        except selectors.SelectorError:
            ours = False
        policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"podSelector": selector}}
        said = api.create({**policy, "metadata": {"name": "tried", "namespace": namespace}}, dry=True)
        assert said.fine is ours, (selector, said.message)
        outcomes.append(ours)
    assert 20 < sum(outcomes) < 100
