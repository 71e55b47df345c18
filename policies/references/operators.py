"""Secrets that operators make of other objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policies.references.made import ANYWHERE, CONFIG_MAP, SECRET, Made, names_of, text
from policies.world import Entry, mapping, sequence

EXTERNAL_SECRETS = "external-secrets.io"
_CERTIFICATE = frozenset({"tls.crt", "tls.key", "ca.crt"})
# cloudnative-pg.io/documentation/current/applications, and pkg/specs/secrets.go for those that it does not list.
_DATABASE = frozenset(
    {
        "username",
        "user",
        "password",
        "dbname",
        "host",
        "port",
        "pgpass",
        "uri",
        "jdbc-uri",
        "fqdn-uri",
        "fqdn-jdbc-uri",
    }
)
_AUTHORITY = frozenset({"ca.crt", "ca.key"})
_PAIR = frozenset({"tls.crt", "tls.key"})


def made_by(entry: Entry) -> Iterator[Made]:
    """Everything that `entry` has an operator make."""
    make = _MAKERS.get((entry.id.group, entry.id.kind))
    if make is not None:
        yield from make(entry)
        return
    # Crossplane: every resource of every provider.
    connection = mapping(entry.spec.get("writeConnectionSecretToRef"))
    if name := text(connection.get("name")):
        yield _unknown(entry, text(connection.get("namespace")) or entry.id.namespace, name)


def target_of(entry: Entry) -> str:
    """The name of what an ExternalSecret makes."""
    return text(mapping(entry.spec.get("target")).get("name")) or entry.id.name


def _external_secret(entry: Entry) -> Iterator[Made]:
    yield from _synchronised(entry, entry.spec, entry.id.namespace, entry.id.name)


def _cluster_external_secret(entry: Entry) -> Iterator[Made]:
    """One ExternalSecret in each namespace that it selects: which those are, only the cluster knows."""
    spec = mapping(entry.spec.get("externalSecretSpec"))
    name = text(entry.spec.get("externalSecretName")) or entry.id.name
    selects = "namespaceSelector" in entry.spec or "namespaceSelectors" in entry.spec
    listed = [] if selects else list(names_of(sequence(entry.spec.get("namespaces"))))
    for namespace in listed or [ANYWHERE]:
        yield from _synchronised(entry, spec, namespace, name)


def _synchronised(entry: Entry, spec: Mapping[str, Any], namespace: str, name: str) -> Iterator[Made]:
    """What the spec of an ExternalSecret makes (external-secrets, pkg/controllers/externalsecret, ApplyTemplate)."""
    target = mapping(spec.get("target"))
    policy = text(target.get("creationPolicy")) or "Owner"
    kind = text(mapping(target.get("manifest")).get("kind")) or SECRET
    if policy == "None" or kind not in (SECRET, CONFIG_MAP):
        return
    keys, doubt = _keys(spec, target)
    adds = policy == "Merge"
    yield Made(
        kind,
        namespace,
        text(target.get("name")) or name,
        keys,
        complete=not doubt and not adds,
        entry=entry,
        owns=not adds,
        doubt=doubt,
    )


def _keys(spec: Mapping[str, Any], target: Mapping[str, Any]) -> tuple[frozenset[str], str]:
    """The keys, and the field that brings others, "" for none."""
    template = mapping(target.get("template"))
    literal = frozenset(names_of(mapping(template.get("data"))))
    parts = [mapping(one) for one in sequence(template.get("templateFrom"))]
    fetched = frozenset(names_of(mapping(one).get("secretKey") for one in sequence(spec.get("data"))))
    doubts = ["dataFrom"] if sequence(spec.get("dataFrom")) else []
    # A template that makes data replaces what was fetched; one that sets nothing but a type or labels does not.
    if (literal or parts) and template.get("mergePolicy") != "Merge":
        fetched, doubts = frozenset(), []
    for part in parts:
        found = _template_from(part)
        if found is None:
            doubts.append("templateFrom")
        else:
            literal |= found
    return literal | fetched, " and ".join(sorted(set(doubts)))


def _template_from(part: Mapping[str, Any]) -> frozenset[str] | None:
    """The keys that an item of templateFrom makes; None: its text decides."""
    if part.get("target", "Data") != "Data":
        return frozenset()
    if "literal" in part:
        return None
    items = [
        mapping(item) for field in ("configMap", "secret") for item in sequence(mapping(part.get(field)).get("items"))
    ]
    if any(item.get("templateAs", "Values") != "Values" for item in items):
        return None
    return frozenset(names_of(item.get("key") for item in items))


def _certificate(entry: Entry) -> Iterator[Made]:
    """cert-manager.io/docs/usage/certificate."""
    keys = _CERTIFICATE
    keystores = mapping(entry.spec.get("keystores"))
    if "jks" in keystores:
        keys |= {"keystore.jks", "truststore.jks"}
    if "pkcs12" in keystores:
        keys |= {"keystore.p12", "truststore.p12"}
    formats = {text(mapping(one).get("type")) for one in sequence(entry.spec.get("additionalOutputFormats"))}
    keys |= {name for kind, name in (("CombinedPEM", "tls-combined.pem"), ("DER", "key.der")) if kind in formats}
    if name := text(entry.spec.get("secretName")):
        yield Made(SECRET, entry.id.namespace, name, keys, entry=entry)


def issued(entry: Entry) -> bool:
    """Whether cert-manager makes the certificates that an Ingress or Gateway names."""
    return any(
        key in entry.annotations
        for key in ("cert-manager.io/issuer", "cert-manager.io/cluster-issuer", "kubernetes.io/tls-acme")
    )


def _ingress(entry: Entry) -> Iterator[Made]:
    if issued(entry):
        for one in sequence(entry.spec.get("tls")):
            if name := text(mapping(one).get("secretName")):
                yield Made(SECRET, entry.id.namespace, name, _CERTIFICATE, entry=entry)


def _gateway(entry: Entry) -> Iterator[Made]:
    if issued(entry):
        for listener in sequence(entry.spec.get("listeners")):
            for one in sequence(mapping(mapping(listener).get("tls")).get("certificateRefs")):
                if name := text(mapping(one).get("name")):
                    yield Made(SECRET, entry.id.namespace, name, _CERTIFICATE, entry=entry)


def _sealed_secret(entry: Entry) -> Iterator[Made]:
    template = mapping(entry.spec.get("template"))
    name = text(mapping(template.get("metadata")).get("name")) or entry.id.name
    keys = frozenset(names_of([*mapping(entry.spec.get("encryptedData")), *mapping(template.get("data"))]))
    yield Made(SECRET, entry.id.namespace, name, keys, complete=bool(keys), entry=entry)


def _database(entry: Entry) -> Iterator[Made]:
    """The Secrets of a CloudNativePG cluster; those that it is given by name are not made."""
    bootstrap = mapping(entry.spec.get("bootstrap"))
    given = any(mapping(mapping(one).get("secret")).get("name") for one in bootstrap.values())
    names = {"ca": _AUTHORITY, "server": _PAIR, "replication": _PAIR}
    if not given:
        names["app"] = _DATABASE
    if entry.spec.get("enableSuperuserAccess") is True and not mapping(entry.spec.get("superuserSecret")):
        names["superuser"] = _DATABASE
    for suffix, keys in names.items():
        yield Made(SECRET, entry.id.namespace, f"{entry.id.name}-{suffix}", keys, entry=entry)


def _infisical_secret(entry: Entry) -> Iterator[Made]:
    references = [
        mapping(entry.spec.get("managedSecretReference")),
        *map(mapping, sequence(entry.spec.get("managedKubeSecretReferences"))),
    ]
    for one in references:
        if name := text(one.get("secretName")):
            yield _unknown(entry, text(one.get("secretNamespace")) or entry.id.namespace, name)


def _vault_secret(entry: Entry) -> Iterator[Made]:
    if name := text(mapping(entry.spec.get("destination")).get("name")):
        yield _unknown(entry, entry.id.namespace, name)


def _csi_objects(entry: Entry) -> Iterator[Made]:
    for one in map(mapping, sequence(entry.spec.get("secretObjects"))):
        keys = frozenset(names_of(mapping(item).get("key") for item in sequence(one.get("data"))))
        if name := text(one.get("secretName")):
            yield Made(SECRET, entry.id.namespace, name, keys, entry=entry)


def _sops_secret(entry: Entry) -> Iterator[Made]:
    for one in map(mapping, sequence(entry.spec.get("secretTemplates"))):
        keys = frozenset(names_of([*mapping(one.get("stringData")), *mapping(one.get("data"))]))
        if name := text(one.get("name")):
            yield Made(SECRET, entry.id.namespace, name, keys, entry=entry)


def _certgen(entry: Entry) -> Iterator[Made]:
    """Jobs of kube-webhook-certgen, as in the charts of ingress-nginx and Prometheus, write a certificate."""
    for container in entry.pod.containers if entry.pod else ():
        for argument in names_of(sequence(container.spec.get("args"))):
            option, _, name = argument.partition("=")
            if option == "--secret-name" and name:
                yield _unknown(entry, entry.id.namespace, name)


def _service(entry: Entry) -> Iterator[Made]:
    """OpenShift issues a certificate for a Service that asks for it."""
    for version in ("beta", "alpha"):
        name = text(entry.annotations.get(f"service.{version}.openshift.io/serving-cert-secret-name"))
        if name:
            yield Made(SECRET, entry.id.namespace, name, _PAIR, entry=entry)


def _with_suffixes(*suffixes: str) -> Callable[[Entry], Iterator[Made]]:
    """What operators call by the name of the object and a suffix."""

    def make(entry: Entry) -> Iterator[Made]:
        for suffix in suffixes:
            yield _unknown(entry, entry.id.namespace, f"{entry.id.name}-{suffix}")

    return make


def _of_its_name(entry: Entry) -> Iterator[Made]:
    yield _unknown(entry, entry.id.namespace, entry.id.name)


def _unknown(entry: Entry, namespace: str, name: str) -> Made:
    return Made(SECRET, namespace, name, complete=False, entry=entry)


_MAKERS: Mapping[tuple[str, str], Callable[[Entry], Iterator[Made]]] = {
    (EXTERNAL_SECRETS, "ExternalSecret"): _external_secret,
    (EXTERNAL_SECRETS, "ClusterExternalSecret"): _cluster_external_secret,
    ("cert-manager.io", "Certificate"): _certificate,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("gateway.networking.k8s.io", "Gateway"): _gateway,
    ("bitnami.com", "SealedSecret"): _sealed_secret,
    ("postgresql.cnpg.io", "Cluster"): _database,
    ("secrets.infisical.com", "InfisicalSecret"): _infisical_secret,
    ("secrets.hashicorp.com", "VaultStaticSecret"): _vault_secret,
    ("secrets.hashicorp.com", "VaultDynamicSecret"): _vault_secret,
    ("secrets.hashicorp.com", "VaultPKISecret"): _vault_secret,
    ("secrets-store.csi.x-k8s.io", "SecretProviderClass"): _csi_objects,
    ("isindir.github.com", "SopsSecret"): _sops_secret,
    ("onepassword.com", "OnePasswordItem"): _of_its_name,
    ("kafka.strimzi.io", "KafkaUser"): _of_its_name,
    ("kafka.strimzi.io", "Kafka"): _with_suffixes("cluster-ca-cert", "clients-ca-cert"),
    ("rabbitmq.com", "RabbitmqCluster"): _with_suffixes("default-user"),
    ("elasticsearch.k8s.elastic.co", "Elasticsearch"): _with_suffixes("es-elastic-user", "es-http-certs-public"),
    ("batch", "Job"): _certgen,
    ("", "Service"): _service,
}
