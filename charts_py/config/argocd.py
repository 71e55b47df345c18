"""How Argo CD picks the rendered state up."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from charts_py.config.types import DnsLabel, DnsSubdomain, LabelKey, Labels, Model


class Retry(Model):
    """How a failed sync is tried again; without it Argo CD does not try the same commit twice."""

    limit: Annotated[int, Field(ge=1, le=20)] = 5
    """How often."""
    backoff: str = "5s"
    """The first pause, doubled each time."""
    maximum: str = "3m0s"
    """The longest pause."""


class ArgoCd(Model):
    """The Application objects."""

    namespace: DnsLabel = "argocd"
    """Where Argo CD runs."""
    project: DnsLabel = "paperclip"
    """The AppProject of the Applications."""
    render_project: bool = True
    """Whether the AppProject is rendered here. False: it exists already."""
    repository: Annotated[str, Field(min_length=1)]
    """The URL of the state repo."""
    revision: str = "main"
    """The branch or tag."""
    path: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")] = "dist"
    """Where dist/ stands in the state repo."""
    server: str = "https://kubernetes.default.svc"
    """The cluster, as Argo CD knows it."""
    prune: bool = True
    """Whether objects that are no longer rendered go. Namespaces and claims never do."""
    retry: Retry = Retry()
    """How a failed sync is tried again."""
    application_prefix: Annotated[DnsLabel, Field(max_length=40)] | None = None
    """Goes before the name of each Application; needed when one Argo CD runs several environments."""
    annotations: dict[LabelKey, str] = Field(default_factory=dict)
    """Annotations of the Applications, for example for notifications."""


class Fleet(Model):
    """Many environments under one Argo CD: an ApplicationSet with one root Application for each."""

    api_version: Literal["paperclip-gitops/v1"]
    """paperclip-gitops/v1"""
    kind: Literal["Fleet"]
    """Fleet"""
    name: DnsSubdomain
    """The name of the ApplicationSet."""
    argocd: ArgoCd
    """How Argo CD picks the rendered state up."""
    labels: Labels = Field(default_factory=dict)
    """Labels of the root Applications."""
