"""The database: what the server is told of it, and the objects of it that are rendered here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from charts_py.config.database import Backup, Bitnami, ChartImage, CloudNativePg
from charts_py.config.environment import Environment
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.containers import resources
from charts_py.constructs.metadata import KEPT, metadata
from charts_py.images import ImageLock
from kubekit.identity import Manifest

POSTGRES_PORT = 5432
EXPORTER_PORT = 9187


class DatabaseCluster(Concept):
    """The objects of CloudNativePG; the Bitnami chart is an Application, an external database none of ours."""

    concept = "database"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        environment = inputs.environment
        if environment.database.kind == "cloudnative-pg":
            yield from _cloudnative_pg(environment, environment.database, inputs)


def variables(environment: Environment) -> list[dict[str, Any]]:
    """The server's variables of the database. `$(PG_PASSWORD)` is expanded only because it stands before the URL."""
    database = environment.database
    if database.kind == "external":
        return [
            {
                "name": "DATABASE_URL",
                "valueFrom": {"secretKeyRef": {"name": database.secret, "key": database.key}},
            }
        ]
    if database.kind == "bitnami":
        secret, user, host = database.password_secret, database.username, f"{database.release}-postgresql"
    else:
        secret, user, host = f"{database.name}-app", database.database, f"{database.name}-rw"
    url = (
        f"postgres://{user}:$(PG_PASSWORD)@{host}.{environment.namespace.name}.svc:{POSTGRES_PORT}/{database.database}"
    )
    return [
        {"name": "PG_PASSWORD", "valueFrom": {"secretKeyRef": {"name": secret, "key": "password"}}},
        {"name": "DATABASE_URL", "value": url},
    ]


def pod_labels(environment: Environment) -> Mapping[str, str] | None:
    """What selects the database's pods in the server's namespace; None if they run elsewhere."""
    database = environment.database
    if database.kind == "bitnami":
        return {"app.kubernetes.io/instance": database.release, "app.kubernetes.io/name": "postgresql"}
    if database.kind == "cloudnative-pg":
        return {"cnpg.io/cluster": database.name}
    return None


def bitnami_values(database: Bitnami, images: ImageLock) -> dict[str, Any]:
    """The values of the chart. Every image is named in full: a chart's default image can vanish."""
    values: dict[str, Any] = {
        "architecture": "standalone",
        "image": _chart_image(database.image, images),
        "auth": {
            "username": database.username,
            "database": database.database,
            # Argo CD renders charts without `lookup`, so a password made by the chart would be new at every render.
            "existingSecret": database.password_secret,
        },
        "primary": {
            "persistence": {"size": database.storage.size},
            "resources": resources(database.resources),
            # The chart's own policy lets everybody in, and policies add up: ours stands in the server's stack.
            "networkPolicy": {"enabled": False},
        },
        "metrics": {"enabled": database.metrics_image is not None},
    }
    if database.storage.storage_class is not None:
        values["primary"]["persistence"]["storageClass"] = database.storage.storage_class
    if database.metrics_image is not None:
        values["metrics"]["image"] = _chart_image(database.metrics_image, images)
    return values


def _chart_image(image: ChartImage, images: ImageLock) -> dict[str, str]:
    named = {"registry": image.registry, "repository": image.repository, "tag": image.tag}
    digest = images.digest_of(image.text)
    return named if digest is None else {**named, "digest": digest}


def _cloudnative_pg(environment: Environment, database: CloudNativePg, inputs: Inputs) -> Iterator[Manifest]:
    namespace = environment.namespace.name
    storage: dict[str, Any] = {"size": database.storage.size}
    if database.storage.storage_class is not None:
        storage["storageClass"] = database.storage.storage_class
    spec: dict[str, Any] = {
        "instances": database.instances,
        "imageName": inputs.images.pin(database.image),
        "storage": storage,
        "resources": resources(database.resources),
        "bootstrap": {"initdb": {"database": database.database, "owner": database.database}},
    }
    if database.backup is not None:
        spec["backup"] = _backup(database.backup)
    yield {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "metadata": metadata(environment, "Cluster", database.name, namespace, "database", KEPT),
        "spec": spec,
    }
    if database.backup is not None:
        method = "barmanObjectStore" if database.backup.object_store is not None else "volumeSnapshot"
        yield {
            "apiVersion": "postgresql.cnpg.io/v1",
            "kind": "ScheduledBackup",
            "metadata": metadata(environment, "ScheduledBackup", database.name, namespace, "database"),
            "spec": {
                "schedule": database.backup.schedule,
                "cluster": {"name": database.name},
                "backupOwnerReference": "self",
                "method": method,
            },
        }


def _backup(backup: Backup) -> dict[str, Any]:
    if backup.object_store is None:
        return {"volumeSnapshot": {"className": backup.volume_snapshot_class}}
    store = backup.object_store
    target: dict[str, Any] = {
        "destinationPath": store.destination,
        "s3Credentials": {
            "accessKeyId": {"name": store.secret, "key": "ACCESS_KEY_ID"},
            "secretAccessKey": {"name": store.secret, "key": "ACCESS_SECRET_KEY"},
        },
    }
    if store.endpoint is not None:
        target["endpointURL"] = store.endpoint
    return {"barmanObjectStore": target, "retentionPolicy": backup.retention}
