"""The Paperclip server: one pod, one ReadWriteOnce claim, and the ways in."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.secrets import ServerSecret
from charts_py.config.types import (
    Address,
    Cidr,
    ConfigKey,
    Count,
    DnsLabel,
    DnsSubdomain,
    Image,
    LabelKey,
    Labels,
    LabelValue,
    Model,
    PortNumber,
    Quantity,
    ServiceName,
    Url,
    unique,
)
from charts_py.config.workload import (
    Container,
    ContainerPort,
    EnvironmentVariable,
    Mount,
    PullPolicy,
    Resources,
    Volume,
    differ,
    differ_in_environment,
)

DATABASE_VARIABLES = ("PG_PASSWORD", "DATABASE_URL")
"""What the server's container is told of the database."""


class Toleration(Model):
    """A taint that the pod bears."""

    key: Literal[""] | LabelKey
    """The key of the taint; empty: every taint."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """Equal compares the value too. Left out in Kubernetes it means Equal with an empty value; here it means Exists."""
    value: LabelValue | None = None
    """The value, with Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Which effect; absent: all of them."""

    @model_validator(mode="after")
    def _value_fits(self) -> Self:
        if (self.operator == "Equal") != (self.value is not None):
            raise ValueError("a toleration has a `value` with `operator: Equal`, and only then")
        if not self.key and self.operator == "Equal":
            raise ValueError("a toleration without a key bears every taint: that takes `operator: Exists`")
        return self


class ServerStorage(Model):
    """The server's claim: run histories, caches, its own database dumps."""

    name: DnsLabel = "paperclip-data"
    """The name of the claim."""
    size: Quantity = "10Gi"
    """Its size; 2Gi ran full in practice."""
    storage_class: DnsSubdomain | None = None
    """Its class; absent: the default class of the cluster."""


class LoadBalancer(Model):
    """The address that people outside the cluster use."""

    ip: Address
    """The address; it must lie in the pool."""
    external_traffic_policy: Literal["Cluster", "Local"] | None = None
    """Local keeps the client's address, but only the node with the pod announces. Absent: Cluster."""
    sharing_key: str | None = None
    """Set when several Services share the address."""


class ServicePort(ContainerPort):
    """A port of a Service; `target` names the container's port."""

    target: PortNumber | None = None
    """The number of the container's port; absent: the same number."""

    @model_validator(mode="after")
    def _target_exists(self) -> Self:
        if self.target is not None and self.through is not None and self.target + self.through - self.port > 65535:
            raise ValueError(f"port range {self.port} to {self.through} ends beyond 65535 at its target {self.target}")
        return self


class ExtraService(Model):
    """A further way into the server's pod, for a sidecar."""

    name: ServiceName
    """The name of the Service."""
    load_balancer: LoadBalancer | None = None
    """Its address outside the cluster; absent: only inside."""
    ports: Annotated[tuple[ServicePort, ...], Field(min_length=1)]
    """Its ports."""

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        differ(self.ports)
        return self


class Server(Model):
    """The server."""

    image: Image
    """The image, with a tag; the digest comes from images.lock."""
    image_version: str | None = None
    """What the tag is, for people: upstream publishes sha-<commit> tags only."""
    image_pull_policy: PullPolicy | None = None
    """Absent: IfNotPresent."""
    public_url: Url
    """The URL that people open."""
    ingress_hosts: tuple[DnsSubdomain, ...] = ()
    """Further hosts under which an ingress reaches the server."""
    allowed_hostnames: tuple[str, ...] = ()
    """Further hosts that the server accepts, beyond those that this config implies."""
    trust_proxy: bool = False
    """Whether a proxy in the cluster stands before it: TRUST_PROXY is then loopback and the pod ranges."""
    settings: dict[ConfigKey, str] = Field(default_factory=dict)
    """Further variables for the server's ConfigMap; they win over the derived ones. Never a secret."""
    environment: tuple[EnvironmentVariable, ...] = ()
    """Further variables of the server's container, after those of the database."""
    secrets: tuple[ServerSecret, ...] = ()
    """The Secrets of the server, in the order in which it reads them."""
    storage: ServerStorage = ServerStorage()
    """The server's claim."""
    resources: Resources
    """What the server asks for and may take."""
    node_selector: Labels = Field(default_factory=dict)
    """The labels of the nodes it may run on; absent: any amd64 node."""
    tolerations: tuple[Toleration, ...] = ()
    """The taints it bears."""
    termination_grace_period_seconds: Count | None = None
    """How long it may take to stop; a launcher beside it has 15 s more. Absent: 30."""
    load_balancer: LoadBalancer | None = None
    """The address outside the cluster; absent: only inside."""
    volumes: tuple[Volume, ...] = ()
    """Further volumes of the pod."""
    mounts: tuple[Mount, ...] = ()
    """Where they stand in the server's container."""
    init_containers: tuple[Container, ...] = ()
    """Containers that run before the server."""
    sidecars: tuple[Container, ...] = ()
    """Containers beside the server."""
    services: tuple[ExtraService, ...] = ()
    """Further ways into the pod."""

    @model_validator(mode="after")
    def _references(self) -> Self:
        volumes = [volume.name for volume in self.volumes]
        if "data" in volumes:
            raise ValueError("volume name `data` is taken by the server's own claim")
        differ_in_environment(self.environment, *DATABASE_VARIABLES)
        unique("mount path", ["/paperclip", *(mount.path for mount in self.mounts)])
        unique(
            "ConfigMap",
            ["paperclip-config", "paperclip-job-templates", *(one.config.name for one in self.volumes if one.config)],
        )
        unique("claim", [self.storage.name, *(one.claim.name for one in self.volumes if one.claim)])
        unique("volume name", volumes)
        unique("container name", ["paperclip", *(c.name for c in (*self.init_containers, *self.sidecars))])
        unique("secret name", [secret.name for secret in self.secrets])
        unique("service name", ["paperclip", "paperclip-lb", *(service.name for service in self.services)])
        known = {"data", *volumes}
        for mount in (*self.mounts, *(m for c in (*self.init_containers, *self.sidecars) for m in c.mounts)):
            if mount.volume not in known:
                raise ValueError(f"mount of {mount.volume!r} at {mount.path}: there is no such volume")
        return self


class Peer(Model):
    """Somebody on the other side of a network flow: pods of a namespace, or addresses."""

    name: DnsLabel
    """What it is, for people and for the name of the rule."""
    namespace: DnsLabel | None = None
    """The namespace of its pods."""
    pod_labels: Labels = Field(default_factory=dict)
    """The labels of its pods; empty: every pod of the namespace."""
    cidrs: tuple[Cidr, ...] = ()
    """Its addresses, if it is no pod."""
    ports: tuple[PortNumber, ...] = ()
    """TCP ports; for callers of the server: absent, its own port."""

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        if (self.namespace is None) == (not self.cidrs):
            raise ValueError(f"peer {self.name!r} takes either `namespace` (with `podLabels`) or `cidrs`")
        return self


class Network(Model):
    """Who may talk to the server, and to whom it may talk. All else is denied."""

    callers: tuple[Peer, ...] = ()
    """Who may call the server, besides the agents and, with a load balancer, its own callers."""
    load_balancer_cidrs: tuple[Cidr, ...] = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    """From which addresses the load balancers may be used."""
    destinations: tuple[Peer, ...] = ()
    """Whom the server may call, besides DNS, its database and the outside world."""
    world_ports: tuple[PortNumber, ...] = (443,)
    """TCP ports of the outside world that the server may use. Empty: none."""
