"""Why a container does not start: its image, and what it is configured with."""

from __future__ import annotations

from paperclip_launcher.causes.cause import Cause

_CREDENTIALS = "check the pull Secret of the environment and the rights of its user"

PULLS = (
    Cause(
        r"no match for platform|exec format",
        "k8s_image_pull_failed",
        False,
        "The image {image} is not built for this node's architecture",
        "build it for the architecture, or choose nodes with `nodeSelector`",
    ),
    Cause(
        r"toomanyrequests|\b429\b|rate limit",
        "k8s_image_pull_failed",
        False,
        "The registry limits how often {image} may be pulled",
        "wait, log in with a pull Secret, or use a mirror",
    ),
    Cause(
        r"x509|certificate",
        "k8s_image_pull_failed",
        False,
        "The node does not trust the registry of {image}",
        "give the nodes the registry's certificate authority",
    ),
    Cause(
        r"no such host|dial tcp|connection re(?:fused|set)|i/o timeout|handshake timeout|server misbehaving"
        r"|deadline exceeded|unreachable|\bEOF\b|RegistryUnavailable",
        "k8s_image_pull_failed",
        False,
        "The node cannot reach the registry of {image}",
        "check the registry's name, the node's network and its proxy",
    ),
    Cause(
        r"\b40[13]\b|unauthorized|access denied|\bdenied\b|authorization failed|authentication required"
        r"|insufficient_scope|no basic auth",
        "k8s_image_pull_failed",
        False,
        "The registry does not give {image} to this node",
        _CREDENTIALS + "; some registries say the same of an image that is not there",
    ),
    Cause(
        r"manifest unknown|name unknown|not found|does not exist|\b404\b",
        "k8s_image_pull_failed",
        False,
        "The image {image} is not in its registry",
        "correct name, tag or digest, or push the image",
    ),
    Cause(
        r"no space left",
        "k8s_image_pull_failed",
        False,
        "The node has no disk space for {image}",
        "free space on the node, or let the run go to another one",
    ),
    Cause("", "k8s_image_pull_failed", False, "The image {image} cannot be pulled", _CREDENTIALS),
)

_SUB_PATH = "check the claim's file system, and that the subPath is a folder the agent may enter"

CONFIGS = (
    Cause(
        r"runAsNonRoot|non-root policy",
        "k8s_container_config",
        True,
        "The image wants to run as root, or as a user without a number",
        "set `agents.jobs.user` of the environment, or a numeric USER in the image",
    ),
    Cause(
        r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) (?:[^/\s]+/)?(?P<name>[^\s,\"]+)",
        "k8s_container_config",
        False,
        "The {kind} {name} has no key {key}",
        "add the key, or make the reference optional",
    ),
    Cause(
        r"references non-existent (?P<kind>secret|config) key: (?P<key>[^\s,\]]+)",
        "k8s_container_config",
        False,
        "A {kind} that the pod mounts has no key {key}",
        "add the key, or take it from the volume",
    ),
    Cause(
        r'(?P<kind>secret|configmap)s? "(?P<name>[^"]+)" (?:is )?(?:not found|forbidden)',
        "k8s_container_config",
        False,
        "The {kind} {name} is not there",
        "create it in the namespace of the agents, or correct its name in the environment",
    ),
    Cause(
        r"failed to sync (?P<kind>\w+) cache|not registered",
        "k8s_container_config",
        False,
        "The node has not read the Secrets and ConfigMaps of the pod yet",
        "wait; where it stays so, check that the node reaches the API server",
    ),
    Cause(
        "subPath",
        "k8s_volume_failed",
        False,
        "The folder of the agent on its claim cannot be mounted",
        _SUB_PATH,
    ),
    Cause(
        "",
        "k8s_container_config",
        False,
        "The container cannot be made as it is configured",
        "correct what the message names",
    ),
)
"""Of the waiting reason CreateContainerConfigError, and of volumes made of Secrets and ConfigMaps."""
