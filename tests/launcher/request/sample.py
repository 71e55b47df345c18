"""A small environment, and a request of the real server's shape."""

from __future__ import annotations

from typing import Any

from charts_py.jobtemplates import JobKindSettings, JobTemplateSettings, SecretVariable

IMAGE = f"ghcr.io/example/agent:1.4.2@sha256:{'0' * 64}"
RESOURCES = {
    "requests": {"cpu": "250m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
    "limits": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "8Gi"},
}
KEY = SecretVariable("ANTHROPIC_API_KEY", "paperclip-agent-keys", "ANTHROPIC_API_KEY")
SETTINGS = JobTemplateSettings(
    namespace="paperclip-agents",
    service_account="paperclip-agent-runner",
    claim_name="paperclip-agent-workspace",
    api_url="http://paperclip.paperclip-system.svc.cluster.local:3100",
    kinds=(
        JobKindSettings("claude", "claude", IMAGE, RESOURCES, (KEY,)),
        JobKindSettings("generic", "generic", IMAGE, RESOURCES),
    ),
    labels={"team": "ops"},
)
FACTS = {"kubernetesVersion": "1.35", "namespaces": ["paperclip-agents"], "registries": ["ghcr.io/example"]}
REQUEST: dict[str, Any] = {
    "runId": "7b1fdc1e-55a4-4c53-8a56-0c9b4a2b9d10",
    "agent": {
        "id": "0d8b4472-c42c-4052-aab1-e32897909afa",
        "companyId": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "name": "Ada the reviewer",
        "role": "engineer",
        "adapterType": "claude_k8s",
        "adapterConfig": {"env": {"KEY": {"type": "plain", "value": "canary-adapter-config"}}},
    },
    "runtime": {"sessionId": None, "sessionParams": None, "sessionDisplayId": None, "taskKey": "i-1"},
    "config": {"env": {"PLAIN": "canary-env", "TMPDIR": "/srv/tmp"}},
    "context": {
        "taskId": "i-1",
        "issueId": "i-1",
        "wakeReason": "issue_assigned",
        "paperclipWorkspace": {
            "cwd": "/srv/paperclip/workspaces/1",
            "source": "project",
            "repoUrl": "https://x.test/r",
        },
        "paperclipWake": {
            "reason": "issue_assigned",
            "issue": {"identifier": "PAP-1", "title": "Mend it"},
            "comments": [{"body": "please"}, {"body": "  "}, {"body": "soon"}],
        },
        "issueIds": ["i-1", " ", "i-2"],
    },
    "executionTarget": {"kind": "local"},
    "authToken": "canary-token",
}
