"""What the launcher's tests stand on: our own environment.yaml rendered and applied to a real node, and its rights."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from charts_py.config.environment import Environment
from charts_py.config.load import load_environment
from charts_py.images import ImageLock, LockedImage
from charts_py.render import prepare
from kubekit import names
from kubekit.jobtemplate import JobTemplate

controlplane, standin, trial = sys.modules["controlplane"], sys.modules["standin"], sys.modules["trial"]

_CONFIG = Path(__file__).with_name("environment.yaml")
# The server itself is not there, and what only it needs neither.
_LEFT_OUT = ("Deployment", "Service")
_TEMPLATES = "paperclip-job-templates"
_PART = 700 << 10  # bytes of the prompt in one Secret
AGENT_KEY = "sk-ant-a-key-of-the-tests"


@dataclass(frozen=True)
class Ground:
    """`kubeconfig` is the launcher's: the token of its ServiceAccount, with the generated Role and nothing else."""

    cluster: Any
    config: Environment
    templates: Mapping[str, JobTemplate]
    templates_folder: Path
    kubeconfig: Path

    @property
    def agents(self) -> str:
        return self.config.agents.namespace

    def as_launcher(self, *arguments: str) -> Any:
        """What kubectl says to the launcher's account."""
        return self.cluster.kubectl("--kubeconfig", str(self.kubeconfig), *arguments)

    def objects(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.items(kind, "-n", self.agents, *arguments)
        return found

    def start(self, run: str, prompt: bytes, kind: str = "claude", **values: object) -> str:
        """The Job of a run and then its Secrets, as the launcher makes them; the name of the Job."""
        job = names.job_name("agent", run)
        parts = [prompt[at : at + _PART] for at in range(0, len(prompt), _PART)] or [b""]
        filled = self.templates[kind].fill(
            {
                **self.templates[kind].values("smallest"),
                **dict.fromkeys(("run_id", "run_label"), run),
                **dict.fromkeys(("agent_id", "agent_label"), "agent"),
                "job_name": job,
                "workspace_subpath": "workspaces/agent",
                "working_dir": self.templates[kind].placeholders["working_dir"].default,
                "deadline_seconds": 600,
                "prompt_sources": [f"{job}-{number}" for number in range(len(parts))],
                **values,
            }
        )
        made = self.cluster.must("create", "--validate=strict", "-o", "json", "-f", "-", objects=[filled]).json
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": made["metadata"]["uid"]}
        for number, part in enumerate(parts):
            self.cluster.must("create", "-f", "-", objects=[self._secret(f"{job}-{number}", owner, number, part)])
        return job

    def _secret(self, name: str, owner: Mapping[str, str], number: int, part: bytes) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.agents, "ownerReferences": [owner]},
            "immutable": True,
            "data": {f"part-{number:04d}": base64.b64encode(part).decode()},
        }

    def pod(self, job: str) -> dict[str, Any] | None:
        pods = self.objects("pods", "-l", f"batch.kubernetes.io/job-name={job}")
        return pods[0] if pods else None

    def terminated(self, job: str) -> dict[str, Any] | None:
        """The end of the container as its pod says, None before."""
        statuses = ((self.pod(job) or {}).get("status") or {}).get("containerStatuses") or [{}]
        found: dict[str, Any] | None = (statuses[0].get("state") or {}).get("terminated")
        return found

    def condition(self, job: str, *types: str) -> dict[str, Any] | None:
        (found,) = self.objects("jobs", "--field-selector", f"metadata.name={job}")
        conditions = found.get("status", {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] in types and one["status"] == "True"), None)

    def ended(self, job: str, seconds: float = 60) -> dict[str, Any]:
        """The Job's last condition, once it is there."""
        found: dict[str, Any] = controlplane.wait_until(
            f"the end of {job}", seconds, lambda: self.condition(job, "Complete", "Failed"), lambda: self.story(job)
        )
        return found

    def log(self, job: str) -> str:
        return str(self.as_launcher("logs", "-n", self.agents, f"job/{job}").out)

    def evict(self, pod: str) -> None:
        """As a drain of the node does."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.agents}}
        path = f"/api/v1/namespaces/{self.agents}/pods/{pod}/eviction"
        self.cluster.must("create", "--raw", path, "-f", "-", objects=[body])

    def story(self, job: str) -> str:
        """For whoever has to find out why a test failed."""
        events = [f"{one['reason']}: {one['message']}" for one in self.objects("events")]
        return "\n".join([json.dumps((self.pod(job) or {}).get("status")), *events[-15:]])

    def clear(self) -> None:
        """No Job, pod or Secret of a run, and the quota free again."""
        self.cluster.must("delete", "jobs", "--all", "-n", self.agents, "--cascade=foreground", "--timeout=90s")
        controlplane.wait_until("all pods to be gone", 60, lambda: not self.objects("pods"))


def bring_up(cluster: Any, folder: Path) -> Ground:
    """Applies the environment and waits until its claim is bound. `folder` gets the launcher's files."""
    config = load_environment(_CONFIG).config
    lock = ImageLock(tuple(LockedImage(image.name, image.digest) for image in cluster.images))
    objects = [one.manifest for one in prepare(config, lock).objects]
    objects = [one for one in objects if one["kind"] not in _LEFT_OUT]
    spaces = [one for one in objects if one["kind"] == "Namespace"]
    apply = ("apply", "--server-side", "--validate=strict", "-f", "-")
    cluster.must(*apply, objects=spaces)
    # The volume first: a claim that finds none waits for the next look of its controller.
    cluster.must(*apply, objects=[_volume(config, cluster.workspace), _agent_keys(config)])
    cluster.must(*apply, objects=[one for one in objects if one["kind"] != "Namespace"])
    claim = config.agents.workspace.name
    cluster.must("wait", "-n", config.agents.namespace, "--for=jsonpath={.status.phase}=Bound", f"pvc/{claim}")
    (found,) = [one for one in objects if one["metadata"]["name"] == _TEMPLATES]
    templates = folder / "job-templates"
    templates.mkdir()
    for name, text in found["data"].items():
        (templates / name).write_text(text)
    kubeconfig = folder / "launcher.kubeconfig"
    kubeconfig.write_text(_kubeconfig(cluster, config))
    kubeconfig.chmod(0o600)
    return Ground(cluster, config, _templates_of(found), templates, kubeconfig)


def _templates_of(manifest: Mapping[str, Any]) -> dict[str, JobTemplate]:
    # Beside the templates the ConfigMap may hold what the launcher's policies need to know.
    kept = {name: text for name, text in manifest["data"].items() if name != "facts.json"}
    found: dict[str, JobTemplate] = trial.templates_of({"data": kept})
    return found


def _volume(config: Environment, folder: Path) -> dict[str, Any]:
    """The claim's volume: nobody provides one here."""
    claim = config.agents.workspace
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": claim.name},
        "spec": {
            "capacity": {"storage": str(claim.size)},
            "accessModes": [claim.access_mode],
            "hostPath": {"path": str(folder), "type": "Directory"},
            "claimRef": {"namespace": config.agents.namespace, "name": claim.name},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }


def _agent_keys(config: Environment) -> dict[str, Any]:
    secret = config.agents.secrets[0]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret.name, "namespace": config.agents.namespace},
        "stringData": {entry.key: AGENT_KEY for entry in secret.entries},
    }


def _kubeconfig(cluster: Any, config: Environment) -> str:
    tree = yaml.safe_load(cluster.kubeconfig.read_text())
    account = _account(cluster, config)
    token = cluster.must("create", "token", *account, "--duration=24h").out.strip()
    tree["users"] = [{"name": "u", "user": {"token": token}}]
    tree["contexts"][0]["context"]["namespace"] = config.agents.namespace
    return str(yaml.safe_dump(tree))


def _account(cluster: Any, config: Environment) -> Sequence[str]:
    """The one to which the Role is bound."""
    (binding,) = cluster.items("rolebindings", "-n", config.agents.namespace)
    (subject,) = binding["subjects"]
    return (subject["name"], "-n", subject["namespace"])
