"""The labels and annotations that our objects carry. Selectors and the launcher depend on them: they never change."""

from __future__ import annotations

NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"

PART_OF_PAPERCLIP = "paperclip"
MANAGED_BY_GENERATOR = "paperclip-gitops"

CONFIG_CHECKSUM = "paperclip.io/config-checksum"
"""On a pod template: a hash of every ConfigMap it reads, since a running pod never sees a change of them."""
IMAGE_VERSION = "paperclip.io/image-version"
"""What an image's tag is, for people."""
TEMPLATE = "paperclip.io/template"
"""On a run's Job and pod: the name of the template that it was made from."""

SYNC_WAVE = "argocd.argoproj.io/sync-wave"
SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
KEEP = "Prune=false,Delete=false"
"""The value of SYNC_OPTIONS on what holds data: neither pruned nor deleted with its Application."""

POD_SECURITY = "pod-security.kubernetes.io"
LOAD_BALANCER_IPS = "lbipam.cilium.io/ips"
SHARING_KEY = "lbipam.cilium.io/sharing-key"

SERVER = {NAME: "paperclip", COMPONENT: "server"}
"""What selects the server's pod."""
AGENT_JOB = {COMPONENT: "agent-job", PART_OF: PART_OF_PAPERCLIP}
"""What selects every pod that the launcher starts."""
