"""provenance.json: from what, and by what, an environment was rendered.

Nothing in it changes by itself (no time, host, path, git state or Python version): the same inputs must give
the same bytes on every machine, and a commit must not follow from having looked.
"""

from __future__ import annotations

import json
from importlib.metadata import version

from charts_py import __version__
from charts_py.dist.layout import RenderedEnvironment, objects_per_stack


def document(environment: RenderedEnvironment) -> bytes:
    stacks = objects_per_stack(environment.files)
    content = {
        "apiVersion": "paperclip-gitops/v1",
        "kind": "Provenance",
        "environment": environment.name,
        "inputs": dict(environment.inputs),
        "tools": dict(environment.tools),
        "objects": {"total": sum(stacks.values()), "stacks": stacks},
    }
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def tools(kubernetes_version: str) -> dict[str, str]:
    """The versions that decide over the bytes. `kubernetes_version` is the one whose schemas were used."""
    named = {
        "cdk8s": version("cdk8s"),
        "kubernetes-schemas": kubernetes_version,
        "paperclip-gitops": __version__,
    }
    return {name: text for name, text in named.items() if text}
