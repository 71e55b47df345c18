"""What the cluster is: its version, addresses, storage, DNS and network plugin."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from charts_py.config.types import Address, Cidr, DnsLabel, DnsSubdomain, Labels, Model, PortNumber

AccessMode = Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"]


class StorageClass(Model):
    """A storage class and what its volumes can do."""

    name: DnsSubdomain
    """The name of the StorageClass."""
    access_modes: Annotated[tuple[AccessMode, ...], Field(min_length=1)]
    """The access modes that its volumes really support; a claim that wants another is refused at synth."""


class Dns(Model):
    """Where pods look names up."""

    namespace: DnsLabel = "kube-system"
    """The namespace of the DNS pods."""
    pod_labels: Labels = Field(default_factory=lambda: {"k8s-app": "kube-dns"})
    """The labels of the DNS pods."""
    node_local_address: Address | None = None
    """The address of NodeLocal DNSCache, if the cluster runs it (169.254.20.10 as a rule)."""


class ApiServer(Model):
    """Where the Kubernetes API answers, as seen by a NetworkPolicy (after DNAT: the node's address and port)."""

    cidrs: Annotated[tuple[Cidr, ...], Field(min_length=1)] = (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
    )
    """The addresses of the API servers. Narrow the default to the control-plane nodes."""
    port: PortNumber = 6443
    """The port of the API servers."""


class LoadBalancerPool(Model):
    """An address pool that this environment owns."""

    name: DnsSubdomain
    """The name of the CiliumLoadBalancerIPPool."""
    start: Address
    """The first address."""
    stop: Address
    """The last address."""
    render: bool = True
    """Whether the pool is rendered here. False: it exists already; the addresses are still checked against it."""

    @model_validator(mode="after")
    def _forward(self) -> Self:
        first, last = ipaddress.ip_address(self.start), ipaddress.ip_address(self.stop)
        if first.version != last.version or int(first) > int(last):
            raise ValueError(
                f"the pool runs from {self.start} to {self.stop}: not forwards, or from one family to the other"
            )
        return self


class L2Announcement(Model):
    """Which interfaces answer ARP for the addresses."""

    name: DnsSubdomain
    """The name of the CiliumL2AnnouncementPolicy."""
    interfaces: Annotated[tuple[str, ...], Field(min_length=1)]
    """Regular expressions of the interfaces, for example ^eth[0-9]+."""
    render: bool = True
    """Whether the policy is rendered here. False: it exists already."""


class Cilium(Model):
    """Set when Cilium is the network plugin."""

    load_balancer_api_version: Literal["v2alpha1", "v2"] = "v2alpha1"
    """The API version of CiliumLoadBalancerIPPool: v2alpha1 up to Cilium 1.17, v2 from 1.18 on."""
    pool: LoadBalancerPool | None = None
    """The pool that load balancer addresses come from."""
    l2_announcement: L2Announcement | None = None
    """The L2 announcement of these addresses."""


class Cluster(Model):
    """The cluster that the environment runs on."""

    kubernetes_version: str = "1.35"
    """The minor version of the API servers, which every object is checked against, for example "1.35"."""
    domain: DnsSubdomain = "cluster.local"
    """The DNS domain of the cluster."""
    pod_cidrs: Annotated[tuple[Cidr, ...], Field(min_length=1)] = ("10.244.0.0/16",)
    """The address ranges of pods. Agents may not reach them; TRUST_PROXY is derived from them."""
    service_cidrs: Annotated[tuple[Cidr, ...], Field(min_length=1)] = ("10.96.0.0/12",)
    """The address ranges of Services. Agents may not reach them."""
    node_cidrs: tuple[Cidr, ...] = ()
    """The address ranges of the nodes. Agents may not reach them, even when they are public addresses."""
    storage_classes: tuple[StorageClass, ...] = ()
    """The storage classes that claims may name. Empty: the class of a claim is not checked."""
    dns: Dns = Dns()
    """Where pods look names up."""
    api_server: ApiServer = ApiServer()
    """Where the Kubernetes API answers; only a server that launches runs may reach it."""
    cilium: Cilium | None = None
    """Set when Cilium is the network plugin; absent on a plain cluster."""

    @model_validator(mode="after")
    def _something_is_outside(self) -> Self:
        own = [ipaddress.ip_network(cidr) for cidr in (*self.pod_cidrs, *self.service_cidrs, *self.node_cidrs)]
        four = list(ipaddress.collapse_addresses(one for one in own if isinstance(one, ipaddress.IPv4Network)))
        six = list(ipaddress.collapse_addresses(one for one in own if isinstance(one, ipaddress.IPv6Network)))
        if ipaddress.IPv4Network("0.0.0.0/0") in four or ipaddress.IPv6Network("::/0") in six:
            raise ValueError(
                "podCIDRs, serviceCIDRs and nodeCIDRs together are every address: nothing would be outside"
            )
        return self

    @field_validator("kubernetes_version")
    @classmethod
    def _supported(cls, version: str) -> str:
        from policies.schemas.versions import supported_versions  # noqa: PLC0415  reads a folder: only when asked

        known = supported_versions()
        if version not in known:
            raise ValueError(f"{version!r} is no version this release has schemas for: {known[0]} to {known[-1]}")
        return version
