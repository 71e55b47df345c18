"""Who makes a Secret, with which keys, and how long a duration of Go is."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.facts import Facts, external_of
from policies.references.external_secrets import duration
from policies.references.producers import producers
from policies.registry import all_policies, by_id
from policies.run import run
from policies.world import World
from tests.support import fixtures

IDS = {one.id for one in all_policies() if one.family in ("references", "rbac")}


def manifest(kind, name="web", namespace="shop", api_version="v1", **fields):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}


def external_secret(name="web", **spec):
    return manifest("ExternalSecret", name, api_version="external-secrets.io/v1", spec=spec)


def known(*manifests, name="web", namespace="shop", externals=()):
    facts = Facts(externals=tuple(external_of(text) for text in externals))
    return World([(one, None) for one in manifests], facts).index(producers).find("Secret", namespace, name)


DATA = [{"secretKey": "a", "remoteRef": {"key": "x"}}]


@pytest.mark.parametrize(
    ("spec", "keys", "complete"),
    [
        ({"data": DATA}, {"a"}, True),
        ({"data": DATA, "target": {"template": {"type": "Opaque"}}}, {"a"}, True),
        ({"data": DATA, "target": {"template": {"data": {"b": "{{ .a }}"}}}}, {"b"}, True),
        ({"data": DATA, "target": {"template": {"data": {"b": ""}, "mergePolicy": "Merge"}}}, {"a", "b"}, True),
        ({"data": DATA, "dataFrom": [{"extract": {"key": "x"}}]}, {"a"}, False),
        ({"dataFrom": [{"find": {}}], "target": {"template": {"data": {"b": ""}}}}, {"b"}, True),
        ({"data": DATA, "target": {"template": {"templateFrom": [{"literal": "b: c"}]}}}, set(), False),
        (
            {"target": {"template": {"templateFrom": [{"configMap": {"name": "t", "items": [{"key": "b"}]}}]}}},
            {"b"},
            True,
        ),
        (
            {
                "data": DATA,
                "target": {
                    "template": {
                        "templateFrom": [
                            {"configMap": {"items": [{"key": "b", "templateAs": "KeysAndValues"}]}},
                        ]
                    }
                },
            },
            set(),
            False,
        ),
        ({"data": DATA, "target": {"template": {"templateFrom": [{"literal": "x", "target": "Labels"}]}}}, set(), True),
        ({"data": DATA, "target": {"creationPolicy": "Merge"}}, {"a"}, False),
    ],
)
def test_the_keys_of_an_external_secret_are_those_that_the_operator_writes(spec, keys, complete):
    found = known(external_secret(**spec))
    assert (found.keys, found.complete) == (keys, complete)


def test_several_makers_add_up_and_one_that_says_nothing_leaves_it_open():
    merged = external_secret("more", data=[{"secretKey": "b"}], target={"name": "web", "creationPolicy": "Merge"})
    owner = external_secret(data=DATA)
    assert known(owner, merged).keys == {"a", "b"}
    assert known(owner, externals=["Secret/shop/web:c"]).keys == {"a", "c"}
    assert known(owner).complete
    assert not known(owner, externals=["Secret/shop/web"]).complete


@pytest.mark.parametrize(
    ("maker", "name", "keys"),
    [
        (manifest("Secret", data={"a": ""}, stringData={"b": ""}), "web", {"a", "b"}),
        (manifest("Secret", type="kubernetes.io/service-account-token"), "web", {"token", "ca.crt", "namespace"}),
        (
            manifest(
                "Certificate", api_version="cert-manager.io/v1", spec={"secretName": "tls", "keystores": {"jks": {}}}
            ),
            "tls",
            {"tls.crt", "tls.key", "ca.crt", "keystore.jks", "truststore.jks"},
        ),
        (
            manifest(
                "SealedSecret",
                api_version="bitnami.com/v1alpha1",
                spec={"encryptedData": {"a": ""}, "template": {"data": {"b": ""}, "metadata": {"name": "open"}}},
            ),
            "open",
            {"a", "b"},
        ),
        (
            manifest("Cluster", "db", api_version="postgresql.cnpg.io/v1", spec={"enableSuperuserAccess": False}),
            "db-ca",
            {"ca.crt", "ca.key"},
        ),
        (
            manifest(
                "SecretProviderClass",
                api_version="secrets-store.csi.x-k8s.io/v1",
                spec={"secretObjects": [{"secretName": "csi", "data": [{"key": "a"}]}]},
            ),
            "csi",
            {"a"},
        ),
    ],
)
def test_the_secrets_of_operators_are_known_with_their_keys(maker, name, keys):
    found = known(maker, name=name)
    assert (found.keys, found.complete) == (keys, True)


def test_a_database_makes_no_secret_that_it_is_given():
    def database(**spec):
        return manifest("Cluster", "db", api_version="postgresql.cnpg.io/v1", spec=spec)

    assert {"username", "password", "uri"} <= known(database(), name="db-app").keys
    assert known(database(bootstrap={"initdb": {"secret": {"name": "mine"}}}), name="db-app") is None
    assert known(database(), name="db-superuser") is None
    assert known(database(enableSuperuserAccess=True), name="db-superuser") is not None


@pytest.mark.parametrize(
    "maker",
    [
        manifest("Bucket", api_version="s3.example.com/v1", spec={"writeConnectionSecretToRef": {"name": "web"}}),
        manifest("OnePasswordItem", api_version="onepassword.com/v1", spec={"itemPath": "x"}),
        manifest(
            "Job",
            "create",
            api_version="batch/v1",
            spec={"template": {"spec": {"containers": [{"name": "x", "args": ["create", "--secret-name=web"]}]}}},
        ),
        manifest(
            "InfisicalSecret",
            "any",
            "tools",
            "secrets.infisical.com/v1alpha1",
            spec={"managedSecretReference": {"secretName": "web", "secretNamespace": "shop"}},
        ),
        manifest(
            "VaultStaticSecret", "x", api_version="secrets.hashicorp.com/v1beta1", spec={"destination": {"name": "web"}}
        ),
    ],
)
def test_what_an_operator_puts_in_is_left_open_where_only_it_knows(maker):
    found = known(maker)
    assert found is not None
    assert not found.complete


def test_namespaces_part_secrets_unless_nobody_says_which():
    assert known(external_secret(data=DATA), namespace="front") is None
    assert known(manifest("Secret", namespace=""), namespace="front") is not None
    assert known(external_secret(data=DATA), namespace="") is not None
    everywhere = {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ClusterExternalSecret",
        "metadata": {"name": "web"},
        "spec": {"namespaceSelectors": [{}], "externalSecretSpec": {"data": DATA}},
    }
    assert known(everywhere, namespace="front").keys == {"a"}
    listed = {**everywhere, "spec": {"namespaces": ["shop"], "externalSecretSpec": {"data": DATA}}}
    assert known(listed, namespace="front") is None


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *[("0", 0), ("0s", 0), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), (".5m", 30), ("5.s", 5), ("-1m", -60)],
        *[("1500ms", 1.5), ("1m1µs", 60.000001), ("1", None), ("", None), ("1d", None), ("m", None), ("1 m", None)],
        *[("--1m", None), ("1h 30m", None), ("٣m", None), (".m", None), ("1e3s", None)],
    ],
)
def test_durations_are_those_of_go(written, seconds):
    found = duration(written)
    assert (found if found is None else float(found)) == seconds


@given(st.text("0123456789.hmsnuµ+-", max_size=12))
def test_no_text_is_too_odd_for_a_duration(written):
    duration(written)


SUBJECTS = [one for path in fixtures.paths() if path.parent.name in IDS for one in fixtures.load(path).subjects]
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(data=st.data(), value=junk)
def test_no_object_is_too_odd(data, value):
    manifest = copy.deepcopy(data.draw(st.sampled_from(SUBJECTS)))
    pointer = data.draw(st.sampled_from(list(places(manifest))))
    *path, last = pointer
    target = manifest
    for part in path:
        target = target[part]
    target[last] = value
    known_ = by_id()
    run(World([(manifest, None)], fixtures.base()[1]), [known_[name] for name in sorted(IDS)])


def places(tree, path=()):
    """Every way into the tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))
