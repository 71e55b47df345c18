"""What upstream's Kubernetes plugin makes for a company, by name: what is there already it takes as it is.

All facts are of `packages/plugins/sandbox-providers/kubernetes/src` in github.com/paperclipai/paperclip, read in August
2026: the names, the order and that it only creates what is absent stand in `tenant-orchestrator.ts`, the labels of
pods in `sandbox-cr-builder.ts` and `pod-spec-builder.ts`, the server's namespace in `plugin.ts`, the label of the
server's pods in `network-policy.ts`, the slug in `utils.ts`. Builds differ in two points: how they shorten a slug, and
that some replace the egress policies if the server may `update` them, and only log a warning where it may not.
"""

from __future__ import annotations

import hashlib
import re

PREFIX = "paperclip-"
"""The default of namespacePrefix."""
LONGEST_SLUG = 32
"""Characters of companySlug, and of the slugs of some builds; others keep 53, and cut a longer one to a hash."""
_LONGER = 53

COMPANY = "paperclip.io/company-id"
MANAGED_BY = "paperclip.io/managed-by"
PLUGIN = "paperclip-k8s-plugin"
"""The value of MANAGED_BY on what the plugin makes."""
AGENT = {"paperclip.io/role": "agent"}
"""The label of its pods that run agents."""

SERVICE_ACCOUNT = "paperclip-tenant-sa"
ROLE = "paperclip-tenant-role"
ROLE_BINDING = "paperclip-tenant-rb"
QUOTA = "paperclip-quota"
LIMITS = "paperclip-limits"
DENY = "paperclip-deny-all"
EGRESS = "paperclip-egress-allow"
EGRESS_CILIUM = "paperclip-egress-fqdn"

SERVER_NAMESPACE = "paperclip"
"""Where it takes the server to be; no setting changes it."""
SERVER_LABELS = {"app": "paperclip-server"}
SERVER_PORT = 3100

EXPECTED = (
    ("ServiceAccount", SERVICE_ACCOUNT),
    ("Role", ROLE),
    ("RoleBinding", ROLE_BINDING),
    ("ResourceQuota", QUOTA),
    ("LimitRange", LIMITS),
    ("NetworkPolicy", DENY),
)
"""(kind, name) of what it makes in each namespace, in this order; then EGRESS, or EGRESS_CILIUM in its mode cilium."""


def slugs(company: str) -> tuple[str, ...]:
    """What builds of the plugin make of a company's id: one slug where they agree, else one of each."""
    slug = re.sub(r"[^a-z0-9-]+", "-", company.lower()).strip("-") or "company"
    short = slug[:LONGEST_SLUG].rstrip("-")
    if len(slug) > _LONGER:
        slug = f"{slug[: _LONGER - 9].rstrip('-')}-{hashlib.sha256(company.encode()).hexdigest()[:8]}"
    return (short,) if short == slug else (short, slug)
