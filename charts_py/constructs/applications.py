"""The Argo CD objects: a project that allows exactly what is rendered, and an Application for each stack.

Waves order the creation of Applications only: Argo CD has not judged the health of an Application since 1.8, unless
argocd-cm says how. So nothing here relies on a wave for readiness; and the database and the server stand in one wave,
because with such a health check they would wait for each other (the database's password comes from the server's stack).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from charts_py.config.argocd import ArgoCd, Fleet
from charts_py.config.database import Bitnami
from charts_py.config.environment import Environment
from charts_py.constructs.metadata import common_labels
from kubekit import labels, names
from kubekit.identity import Manifest, ObjectId

SYSTEM, AGENTS, ARGOCD, DATABASE = "paperclip-system", "paperclip-agents", "argocd", "paperclip-db"
POLICIES, TENANTS = "paperclip-policies", "paperclip-tenants"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"
# What the PostgreSQL chart renders with our values.
_CHART_KINDS = (
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("apps", "StatefulSet"),
    ("policy", "PodDisruptionBudget"),
)


def project(environment: Environment, argocd: ArgoCd, rendered: Iterable[Manifest]) -> Manifest:
    """The AppProject; `rendered` are the objects of the other stacks, whose kinds it allows."""
    ids = [ObjectId.of(manifest) for manifest in rendered]
    namespaced = {(one.group, one.kind) for one in ids if not one.cluster_scoped}
    sources = [argocd.repository]
    if environment.database.kind == "bitnami":
        namespaced |= set(_CHART_KINDS)
        sources.append(environment.database.chart_repository)
    own = (environment.namespace.name, environment.agents.namespace)
    namespaces = (*own, *(tenant.place for tenant in environment.tenants))
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {
            "name": argocd.project,
            "namespace": argocd.namespace,
            "labels": common_labels(environment, "paperclip", "argocd"),
            "annotations": {labels.SYNC_WAVE: "-1"},
        },
        "spec": {
            "description": f"Paperclip, environment {environment.name}",
            "sourceRepos": sources,
            "destinations": [{"server": argocd.server, "namespace": namespace} for namespace in namespaces],
            "clusterResourceWhitelist": _kinds({(one.group, one.kind) for one in ids if one.cluster_scoped}),
            "namespaceResourceWhitelist": _kinds(namespaced),
        },
    }


def _kinds(kinds: set[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"group": group, "kind": kind} for group, kind in sorted(kinds)]


def applications(environment: Environment, argocd: ArgoCd) -> Iterator[Manifest]:
    system, agents = environment.namespace.name, environment.agents.namespace
    folder = f"{argocd.path}/{environment.name}"
    if environment.admission_policies is not None:
        # Before the others, so that their objects are judged too; it is in force some seconds later.
        yield _application(environment, argocd, POLICIES, system, -1, _folder(argocd, f"{folder}/{POLICIES}"))
    if environment.database.kind == "bitnami":
        database = environment.database
        sources = {"sources": list(_database_sources(argocd, database, folder))}
        yield _application(environment, argocd, database.release, system, 0, sources, create_namespace=True)
    yield _application(environment, argocd, "paperclip", system, 0, _folder(argocd, f"{folder}/{SYSTEM}"))
    yield _application(environment, argocd, "paperclip-agents", agents, 1, _folder(argocd, f"{folder}/{AGENTS}"))
    if environment.tenants:
        yield _application(environment, argocd, TENANTS, system, 1, _folder(argocd, f"{folder}/{TENANTS}"))


def _folder(argocd: ArgoCd, path: str) -> dict[str, Any]:
    return {"source": {"repoURL": argocd.repository, "targetRevision": argocd.revision, "path": path}}


def _database_sources(argocd: ArgoCd, database: Bitnami, folder: str) -> Iterator[dict[str, Any]]:
    yield {
        "repoURL": database.chart_repository,
        "chart": "postgresql",
        "targetRevision": database.chart_version,
        "helm": {"releaseName": database.release, "valueFiles": [f"$values/{folder}/{DATABASE}/values.yaml"]},
    }
    yield {"repoURL": argocd.repository, "targetRevision": argocd.revision, "ref": "values"}


def _application(
    environment: Environment,
    argocd: ArgoCd,
    name: str,
    namespace: str,
    wave: int,
    source: dict[str, Any],
    *,
    create_namespace: bool = False,
) -> Manifest:
    full_name = name if argocd.application_prefix is None else f"{argocd.application_prefix}-{name}"
    options = ["ServerSideApply=true", f"CreateNamespace={str(create_namespace).lower()}", "PruneLast=true"]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": full_name,
            "namespace": argocd.namespace,
            "labels": common_labels(environment, "paperclip", "argocd"),
            "annotations": {**argocd.annotations, labels.SYNC_WAVE: str(wave)},
            "finalizers": [_FINALIZER],
        },
        "spec": {
            "project": argocd.project,
            **source,
            "destination": {"server": argocd.server, "namespace": namespace},
            "syncPolicy": {
                "automated": _automated(argocd),
                "syncOptions": [*options, "FailOnSharedResource=true"],
                "retry": _retry(argocd),
            },
            "revisionHistoryLimit": 10,
        },
    }


def _automated(argocd: ArgoCd) -> dict[str, bool]:
    """`prune: false` is never written: Argo CD drops it, and the parent Application would stay out of sync for ever."""
    return {"prune": True, "selfHeal": True} if argocd.prune else {"selfHeal": True}


def _retry(argocd: ArgoCd) -> dict[str, Any]:
    retry = argocd.retry
    return {
        "limit": retry.limit,
        "backoff": {"duration": retry.backoff, "factor": 2, "maxDuration": retry.maximum},
    }


def _marks(fleet: Fleet) -> dict[str, str]:
    """The labels of the ApplicationSet and of its Applications, but for the instance, which each has of its own."""
    return {
        **fleet.labels,
        labels.NAME: "paperclip",
        labels.COMPONENT: "argocd",
        labels.PART_OF: labels.PART_OF_PAPERCLIP,
        labels.MANAGED_BY: labels.MANAGED_BY_GENERATOR,
    }


def application_set(fleet: Fleet) -> Manifest:
    """One root Application for each environment that stands in the state repo."""
    argocd = fleet.argocd
    marks = _marks(fleet)
    depth = len(argocd.path.split("/"))
    environment = f"{{{{ index .path.segments {depth} }}}}"
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {
            "name": fleet.name,
            "namespace": argocd.namespace,
            "labels": {**marks, labels.INSTANCE: names.label_value(fleet.name)},
        },
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [
                {
                    "git": {
                        "repoURL": argocd.repository,
                        "revision": argocd.revision,
                        "directories": [{"path": f"{argocd.path}/*/{ARGOCD}"}],
                    },
                },
            ],
            # An environment that vanishes from the repo by mistake must not take its cluster's objects along.
            "syncPolicy": {"preserveResourcesOnDeletion": True},
            "template": {
                "metadata": {"name": f"paperclip-{environment}", "labels": {**marks, labels.INSTANCE: environment}},
                "spec": {
                    # Never templated: a folder's name must not choose the rights it is synced with.
                    "project": argocd.project,
                    "source": {
                        "repoURL": argocd.repository,
                        "targetRevision": argocd.revision,
                        "path": "{{ .path.path }}",
                    },
                    "destination": {"server": argocd.server, "namespace": argocd.namespace},
                    "syncPolicy": {
                        "automated": _automated(argocd),
                        "syncOptions": ["ServerSideApply=true", "CreateNamespace=false"],
                        "retry": _retry(argocd),
                    },
                },
            },
        },
    }
