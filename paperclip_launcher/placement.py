"""Where and how a run runs: what the config may choose, and what is the environment's to set."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from kubekit import quantity
from paperclip_launcher.options import RunOptions
from paperclip_launcher.readers import shown
from paperclip_launcher.request import RunRequest
from paperclip_launcher.templates import Template

_FROM_START = 60  # seconds: an image is pulled, a volume attached


def placement(options: RunOptions, template: Template, problems: list[str]) -> dict[str, Any]:
    """Values for the placeholders of a template about scheduling, image, resources and time."""
    return {
        "image": options.image or None,
        "resources": _resources(options.resources, template, problems),
        "node_selector": None if options.node_selector is None else dict(options.node_selector),
        "tolerations": None if options.tolerations is None else list(options.tolerations),
        "priority_class": options.priority_class or None,
        "runtime_class": options.runtime_class or None,
        "queue_name": options.queue_name or None,
        "deadline_seconds": _deadline(options, template, problems),
    }


def of_environment(options: RunOptions, template: Template) -> list[str]:
    """A sentence for each thing that the config would change and only the environment may."""
    problems = [
        f"{key} is {shown(wanted)}, and {shown(had)} is what the environment has; {mend}"
        for key, wanted, had, mend in (
            ("namespace", options.namespace, template.namespace, "it is set by agents.namespace there"),
            (
                "serviceAccountName",
                options.service_account,
                template.service_account,
                "it is set by agents.service_account there",
            ),
            (
                "imagePullPolicy",
                options.image_pull_policy,
                template.image_pull_policy,
                "images are pinned, so it makes no difference; leave it empty",
            ),
        )
        if wanted and wanted != had
    ]
    own = template.default("runtime_class")
    if own and options.runtime_class and options.runtime_class != own:
        problems.append(
            f"runtimeClassName is {shown(options.runtime_class)}, and every run here has {own}: leave it out"
        )
    if options.kubeconfig:
        problems.append("kubeconfig is the launcher's own: start it with --kubeconfig, and leave this empty")
    return problems


def working_dir(request: RunRequest, options: RunOptions, template: Template, problems: list[str]) -> str:
    """Where the program starts: the workspace that Paperclip names, else the config's, else the environment's.

    A folder of the server's machine is none in the pod, and Paperclip nearly always names one: it is passed over. The
    config's may be relative to the workspace.
    """
    mount = template.workspace_mount
    workspace = request.context.get("paperclipWorkspace")
    named = workspace.get("cwd") if isinstance(workspace, Mapping) else None
    if isinstance(named, str) and _inside(named.strip(), mount):
        return posixpath.normpath(named.strip())
    if options.cwd:
        wanted = posixpath.join(mount, options.cwd)
        if _inside(wanted, mount):
            return posixpath.normpath(wanted)
        problems.append(f"cwd is {shown(options.cwd)}, which is outside of the workspace {mount}")
    return str(template.default("working_dir") or mount)


def _inside(path: str, mount: str) -> bool:
    return path.startswith("/") and ".." not in path.split("/") and f"{path}/".startswith(f"{mount.rstrip('/')}/")


def _deadline(options: RunOptions, template: Template, problems: list[str]) -> int | None:
    """Seconds until Kubernetes ends the Job itself, which is later than the launcher does it: for when there is none.

    Kubernetes counts from the Job's start, so the time in which the pod may start is on top.
    """
    if not options.timeout_seconds:
        return None
    longest = template.job.placeholders["deadline_seconds"].maximum or options.timeout_seconds
    if options.timeout_seconds > longest:
        problems.append(f"timeoutSec is {options.timeout_seconds}; the environment's longest run is {longest}")
    total = options.timeout_seconds + options.grace_seconds + options.schedule_timeout_seconds + _FROM_START
    return min(total, longest)


def _resources(
    wanted: Mapping[str, Mapping[str, str]], template: Template, problems: list[str]
) -> dict[str, dict[str, str]] | None:
    """The environment's resources with what the config says over them.

    Where only one side of a pair was said and the environment's other side is at odds with it, the other side follows.
    """
    if not wanted:
        return None
    own: Mapping[str, Mapping[str, str]] = template.default("resources") or {}
    requests = {**own.get("requests", {}), **wanted.get("requests", {})}
    limits = {**own.get("limits", {}), **wanted.get("limits", {})}
    # The environment's own amounts fit each other.
    said_at_all = {name for amounts in wanted.values() for name in amounts}
    for name in sorted(said_at_all & requests.keys() & limits.keys()):
        if quantity.compare(requests[name], limits[name]) <= 0:
            continue
        said = [part for part in ("requests", "limits") if name in wanted.get(part, {})]
        if len(said) == 2:
            problems.append(f"resources.requests.{name} is {requests[name]}, more than its limit of {limits[name]}")
        elif said == ["limits"]:
            requests[name] = limits[name]
        else:
            limits[name] = requests[name]
    return {"requests": requests, "limits": limits}
