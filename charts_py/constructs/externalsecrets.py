"""Secrets as ExternalSecrets. Without a store nothing is rendered: the Secrets are expected to exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from charts_py.config.environment import Environment
from charts_py.config.secrets import SecretEntry, SecretSpec, SecretStore
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import metadata
from kubekit.identity import Manifest


class ServerSecrets(Concept):
    """The Secrets of the server, and the passwords of a database installed by its chart."""

    concept = "secrets"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        namespace = environment.namespace.name
        for secret in environment.server.secrets:
            # One that is not healthy fails its wave and the later ones; no feature's key may stop the server.
            awaited = not secret.optional
            yield from external_secret(environment, namespace, "server", secret, awaited=awaited)
        database = environment.database
        if database.kind == "bitnami":
            passwords = SecretSpec(name=database.password_secret, entries=database.password_entries)
            yield from external_secret(environment, namespace, "database", passwords)


class AgentSecrets(Concept):
    """The API keys of the agents."""

    concept = "secrets"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        for secret in environment.agents.secrets:
            yield from external_secret(environment, environment.agents.namespace, "agents", secret)


def external_secret(
    environment: Environment,
    namespace: str,
    component: str,
    secret: SecretSpec,
    *,
    awaited: bool = True,
) -> Iterator[Manifest]:
    """One ExternalSecret; nothing where the Secret is made elsewhere.

    The defaults of the CRD are written out, since Argo CD would else see a difference for ever.
    """
    store, name = environment.secret_store, secret.name
    if store is None or secret.external or not secret.entries:
        return
    target: dict[str, Any] = {"name": name, "creationPolicy": "Owner", "deletionPolicy": "Retain"}
    if secret.template or secret.type is not None:
        target["template"] = _template(secret)
    yield {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": metadata(environment, "ExternalSecret", name, namespace, component, awaited=awaited),
        "spec": {
            "refreshInterval": store.refresh_interval,
            "secretStoreRef": {"name": store.name, "kind": store.kind},
            "target": target,
            "data": _data(store, secret.entries),
        },
    }


def _template(secret: SecretSpec) -> dict[str, Any]:
    template: dict[str, Any] = {"engineVersion": "v2", "mergePolicy": "Replace"}
    if secret.type is not None:
        template["type"] = secret.type
    if secret.template:
        template["data"] = dict(secret.template)
    return template


def _data(store: SecretStore, entries: Sequence[SecretEntry]) -> list[dict[str, Any]]:
    said = {} if store.null_byte_policy is None else {"nullBytePolicy": store.null_byte_policy}
    return [
        {
            "secretKey": entry.key,
            "remoteRef": {
                "key": entry.remote,
                "conversionStrategy": "Default",
                "decodingStrategy": "None",
                "metadataPolicy": "None",
                **said,
            },
        }
        for entry in entries
    ]
