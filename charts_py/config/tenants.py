"""Tenants of upstream's Kubernetes plugin: what it would make for a company, made before it comes.

Facts of the plugin stand in kubekit/tenants.py, with their source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from charts_py.config.agents import ContainerLimits, Egress, Quota
from charts_py.config.cluster import Cluster
from charts_py.config.types import DnsLabel, LabelKey, LabelValue, Model
from charts_py.config.workload import Amounts
from kubekit import names, tenants


class TenantQuota(Quota):
    """What all pods of a tenant together may take: the plugin's own numbers, and the disk that it leaves open."""

    requests: Amounts = Amounts(cpu="10", memory="20Gi", ephemeral_storage="40Gi")
    """The sum of all requests."""
    limits: Amounts = Amounts(cpu="40", memory="80Gi", ephemeral_storage="320Gi")
    """The sum of all limits: twenty of the plugin's pods have 2 CPUs and 4Gi each."""


class TenantLimits(ContainerLimits):
    """The bounds of one container of a tenant."""

    default_limits: Amounts = Amounts(cpu="2", memory="4Gi", ephemeral_storage="16Gi")
    """The limits of a container that names none; the plugin's pods name no disk and have 12Gi of emptyDirs."""


class Tenant(Model):
    """One company whose agents upstream's plugin runs, in a namespace of its own."""

    company: Annotated[LabelValue, Field(min_length=1)]
    """The id of the company in Paperclip: a label of its namespace."""
    namespace: DnsLabel | None = None
    """Its namespace: namespacePrefix and companySlug of the plugin's config. Absent: paperclip- and the company."""
    quota: TenantQuota = TenantQuota()
    """What all its pods may take."""
    container_limits: TenantLimits = TenantLimits()
    """The bounds of one container."""
    egress: Egress = Egress()
    """Where its agents may go."""
    service_account_annotations: dict[LabelKey, str] = Field(default_factory=dict)
    """Annotations of its ServiceAccount, as serviceAccountAnnotations of the plugin's config."""
    backend: Literal["job", "sandbox-cr"] = "job"
    """What the server may start there, as in the plugin's config. sandbox-cr runs commands in pods: write a waiver.

    With `launcher.sidecar` the server's container has no token of its own: give the plugin a kubeconfig.
    """
    run_grants: bool = False
    """Whether the server may add policies for single runs, which widen what `egress` says: rules add up."""

    @model_validator(mode="after")
    def _has_one_namespace(self) -> Self:
        if self.namespace is None:
            found = sorted({tenants.PREFIX + slug for slug in tenants.slugs(self.company)})
            if len(found) > 1:
                raise ValueError(
                    f"company {self.company!r}: by its version the plugin calls the namespace {' or '.join(found)}; "
                    f"set companySlug in the plugin's config, at most {tenants.LONGEST_SLUG} characters, and write "
                    f"`namespace` here: {tenants.PREFIX} and the slug"
                )
            if problem := names.explain_dns_label(found[0]):
                raise ValueError(f"company {self.company!r}: its namespace {found[0]!r} {problem}; write `namespace`")
        if self.egress.fqdns and self.egress.world:
            raise ValueError("egress: rules add up, so `world: true` would hide `fqdns`; set `world: false`")
        return self

    @property
    def place(self) -> str:
        """Its namespace."""
        return self.namespace or tenants.PREFIX + tenants.slugs(self.company)[0]


def check_tenants(found: Iterable[Tenant], taken: dict[str, str], cluster: Cluster, *, launcher: bool) -> None:
    """Raises ValueError for tenants that the environment cannot have.

    `taken` maps a namespace of others to whose it is; `launcher`: whether the server's pod reaches the Kubernetes API.
    """
    places = {"default": "everybody's", cluster.dns.namespace: "that of DNS", **taken}
    companies: set[str] = set()
    for one in found:
        who = f"tenants: company {one.company}"
        if one.company in companies:
            raise ValueError(f"{who} stands twice")
        companies.add(one.company)
        if one.place in places or one.place.startswith("kube-"):
            whose = places.get(one.place, "the cluster's")
            raise ValueError(
                f"{who}: the namespace {one.place} is {whose}; set another companySlug in the plugin's config, and the "
                "`namespace` here"
            )
        places[one.place] = f"that of company {one.company}"
        if one.egress.fqdns and cluster.cilium is None:
            raise ValueError(f"{who}: egress.fqdns: only Cilium can allow by name; it needs `cluster.cilium`")
        if not launcher:
            raise ValueError(f"{who}: the plugin calls the Kubernetes API as the server: set `launcher.enabled: true`")
