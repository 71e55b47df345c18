"""What Kubernetes adds to CEL, as the evaluator of the tests has it; expected values are those of its documentation."""

from __future__ import annotations

import pytest

from policies.cel import Cel
from tests.support import celeval

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"x": "y"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"memory": "1Gi"}}}]},
}
# kubernetes.io/docs/reference/using-api/cel
TRUE = (
    "[1, 2].sum() == 3 && [3, 1].min() == 1 && ['b', 'a'].max() == 'b' && ['a', 'b'].isSorted()",
    "['a', 'b'].indexOf('b') == 1 && [1, 2].indexOf(3) == -1 && [1, 2, 1].lastIndexOf(1) == 2",
    "'abc 123'.find('[0-9]+') == '123' && '123 abc 456'.findAll('[0-9]*', 1) == ['123'] && 'a'.find('[0-9]') == ''",
    "url('https://example.com:80/path?k=v').getPort() == '80'",
    "url('https://example.com:80/').getHost() == 'example.com:80'",
    "isURL('https://example.com') && !isURL('../relative') && url('https://u:p@h/').getHostname() == 'h'",
    "quantity('1.5Gi') == quantity('1536Mi') && quantity('150m').isLessThan(quantity('0.2')) && isQuantity('1E')",
    "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('2').compareTo(quantity('1')) == 1",
    "!isQuantity('1.3Gx') && !isQuantity('') && quantity('500M').asInteger() == 500000000",
    "isIP('127.0.0.1') && !isIP('127.0.0.256') && !isIP('::ffff:1.2.3.4') && ip('::1').family() == 6",
    "ip('127.0.0.1').isLoopback() && ip('fe80::1').isLinkLocalUnicast() && ip.isCanonical('2001:db8::1')",
    "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP('10.0.0.1')",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
    "cidr('192.168.0.0/24').prefixLength() == 24 && !isCIDR('192.168.0.0') && !isCIDR('10.0.0.0/33')",
    "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
    "'aB'.lowerAscii() == 'ab' && 'aB'.upperAscii() == 'AB' && ' a '.trim() == 'a'",
    "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'hello'.indexOf('l') == 2",
    "'hello'.replace('l', 'L', 1) == 'heLlo' && 'hello'.charAt(4) == 'o' && 'a b c'.split(' ', 2) == ['a', 'b c']",
    "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1]) && !sets.intersects([1], [2])",
    "object.metadata.?labels[?'x'].orValue('') == 'y' && object.?status.?phase.orValue('none') == 'none'",
    "oldObject == null && request.operation == 'CREATE'",
    "variables.containers.all(c, quantity(c.resources.limits.memory) == quantity('1024Mi'))",
)


@pytest.mark.parametrize("expression", TRUE)
def test_what_is_true_by_the_documentation(expression):
    assert celeval.problems(Cel(expression)) == []
    assert celeval.verdict(Cel(expression), POD) == "pass"


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('much') == quantity('1')",
        "object.spec.nothing == 1",
        "'abc'.substring(4) == ''",
        "1",
        "quantity(1) == 1",
    ],
)
def test_an_error_is_a_refusal(expression):
    if celeval.problems(Cel(expression)) == []:
        assert celeval.verdict(Cel(expression), POD).startswith("error: ")


def test_a_variable_that_fails_fails_only_who_looks_at_it():
    broken = {"broken": "object.spec.nothing"}
    assert celeval.verdict(Cel("object.kind == 'Pod' || variables.broken", variables=broken), POD) == "pass"
    assert celeval.verdict(Cel("variables.broken == 1", variables=broken), POD).startswith("error: ")


def test_what_is_not_meant_passes():
    assert celeval.verdict(Cel("false", kinds=frozenset({"Service"})), POD) == "pass"
    assert celeval.verdict(Cel("false"), POD, kinds=("Service",)) == "pass"
    assert celeval.verdict(Cel("false", operations=("UPDATE",)), POD) == "pass"
    assert celeval.verdict(Cel("false", operations=("UPDATE",)), POD, old=POD) == "fail"
    assert celeval.verdict(Cel("false"), {**POD, "apiVersion": "serving.knative.dev/v1"}, kinds=("Pod",)) == "pass"


@pytest.mark.parametrize("expression", ["[1].flatten()", "math.greatest(1, 2)", "cel.bind(a, 1, a)", "nowhere", "a ="])
def test_what_not_every_kubernetes_has_does_not_compile(expression):
    assert celeval.problems(Cel(expression))


def test_a_reserved_word_names_no_variable():
    assert celeval.problems(Cel("variables.namespace == ''", variables={"namespace": "''"}))
