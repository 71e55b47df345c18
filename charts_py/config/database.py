"""The database: an Argo CD Helm source, one that exists, or one run by the CloudNativePG operator."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.secrets import SecretEntry
from charts_py.config.types import (
    Cidr,
    ConfigKey,
    DnsLabel,
    DnsSubdomain,
    Image,
    Labels,
    LabelValue,
    Model,
    PortNumber,
    Quantity,
    ServiceName,
)
from charts_py.config.workload import Resources


class ChartImage(Model):
    """An image as the chart's values name it. Every part is written out: the vendor's own images are gone."""

    registry: Annotated[str, Field(min_length=1)] = "mirror.gcr.io"
    """The registry."""
    repository: Annotated[str, Field(min_length=1)]
    """The repository, for example bitnamilegacy/postgresql."""
    tag: LabelValue
    """The tag. A chart's version is not an image's tag."""

    @property
    def text(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}"


class DatabaseStorage(Model):
    """The volume of the database."""

    size: Quantity
    """Its size."""
    storage_class: DnsSubdomain | None = None
    """Its class; absent: the default class of the cluster."""


class Bitnami(Model):
    """PostgreSQL by the Bitnami chart, as an Argo CD Application with two sources."""

    kind: Literal["bitnami"]
    """bitnami"""
    release: Annotated[ServiceName, Field(max_length=52)] = "paperclip-db"
    """The release name; the Service is called <release>-postgresql."""
    chart_repository: str = "registry-1.docker.io/bitnamicharts"
    """The OCI repository of the chart, without oci://, as Argo CD wants it."""
    chart_version: str = "14.1.10"
    """The version of the chart. From 16 on the chart refuses images of other registries."""
    image: ChartImage
    """The image of PostgreSQL."""
    metrics_image: ChartImage | None = None
    """The image of the exporter; absent: no exporter."""
    username: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] = "paperclip"
    """The user of the server."""
    database: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] = "paperclip"
    """The database of the server."""
    storage: DatabaseStorage
    """The volume of the database."""
    resources: Resources
    """What PostgreSQL asks for and may take."""
    password_secret: DnsSubdomain = "paperclip-db-auth"  # noqa: S105  a name, not a value
    """The Secret with the passwords, so that no render ever makes a new one."""
    password_entries: Annotated[tuple[SecretEntry, ...], Field(min_length=1)] = (
        SecretEntry(key="password", remote="PAPERCLIP_DB_PASSWORD"),
        SecretEntry(key="postgres-password", remote="PAPERCLIP_DB_POSTGRES_PASSWORD"),
    )
    """The keys `password` and `postgres-password`, and where they stand in the store."""

    @model_validator(mode="after")
    def _both_passwords(self) -> Self:
        keys = {entry.key for entry in self.password_entries}
        if missing := {"password", "postgres-password"} - keys:
            raise ValueError(f"passwordEntries lacks {', '.join(sorted(missing))}: the chart reads both keys")
        return self


class External(Model):
    """A database that exists. Its URL stands in a Secret."""

    kind: Literal["external"]
    """external"""
    secret: DnsSubdomain
    """The Secret with the URL."""
    key: ConfigKey = "url"
    """The key of the URL in the Secret."""
    namespace: DnsLabel | None = None
    """The namespace of the database, if it runs in this cluster."""
    pod_labels: Labels = Field(default_factory=dict)
    """The labels of its pods, if it runs in this cluster."""
    cidrs: tuple[Cidr, ...] = ()
    """Its addresses, if it runs elsewhere."""
    port: PortNumber = 5432
    """Its port."""

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if bool(self.cidrs) == (self.namespace is not None):
            raise ValueError("say where the database is: either `namespace` (with `podLabels`) or `cidrs`")
        return self


class ObjectStore(Model):
    """Where base backups and WAL go."""

    destination: Annotated[str, Field(pattern=r"^(s3|gs|https)://")]
    """For example s3://backups/paperclip."""
    endpoint: str | None = None
    """The URL of an S3-compatible service."""
    secret: DnsSubdomain
    """The Secret with the keys ACCESS_KEY_ID and ACCESS_SECRET_KEY."""


class Backup(Model):
    """When and where CloudNativePG writes backups."""

    schedule: Annotated[str, Field(pattern=r"^\S+( \S+){5}$")] = "0 0 2 * * *"
    """Six fields: seconds first, as CloudNativePG counts."""
    retention: Annotated[str, Field(pattern=r"^[1-9][0-9]*[dwm]$")] = "30d"
    """How long backups are kept, for example 30d."""
    object_store: ObjectStore | None = None
    """Backups to an object store."""
    volume_snapshot_class: DnsSubdomain | None = None
    """Backups as snapshots of the volume."""

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.object_store is None) == (self.volume_snapshot_class is None):
            raise ValueError("a backup takes either `objectStore` or `volumeSnapshotClass`")
        return self


class CloudNativePg(Model):
    """PostgreSQL run by the CloudNativePG operator."""

    kind: Literal["cloudnative-pg"]
    """cloudnative-pg"""
    name: Annotated[ServiceName, Field(max_length=50)] = "paperclip-db"
    """The name of the Cluster; the Service is called <name>-rw, the Secret <name>-app."""
    image: Image
    """The image of PostgreSQL, for example ghcr.io/cloudnative-pg/postgresql:17.6."""
    instances: Annotated[int, Field(ge=1, le=9)] = 1
    """How many copies."""
    database: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] = "paperclip"
    """The database and its owner."""
    storage: DatabaseStorage
    """The volume of each copy."""
    resources: Resources
    """What each copy asks for and may take."""
    backup: Backup | None = None
    """Scheduled backups."""


Database = Annotated[Bitnami | External | CloudNativePg, Field(discriminator="kind")]
