"""Makes the Job of a run, and its Secrets, from the request, the config and a template. Pure: nothing is sent."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubekit import labels, podspec
from kubekit.identity import Manifest
from kubekit.jobtemplate import PlaceholderError
from kubekit.names import job_name, label_value, slug_with_hash
from paperclip_launcher import handover, marks
from paperclip_launcher.dialects.model import Dialect
from paperclip_launcher.environment import Place, Variables, variables
from paperclip_launcher.errors import ConfigInvalid, LauncherError
from paperclip_launcher.handover import NOTHING_EXTRA, Extras
from paperclip_launcher.options import RunOptions
from paperclip_launcher.placement import of_environment, placement, working_dir
from paperclip_launcher.prompt import Prompt, write_prompt
from paperclip_launcher.request import RunRequest
from paperclip_launcher.skills.pack import Parcel, folder_of, pack
from paperclip_launcher.templates import Template, Templates

LARGEST_JOB = 1 << 20
"""Bytes of JSON; the API server stops at 1.5 MiB."""
SECRET = "run-secret"  # noqa: S105  a component's name
"""The component in the labels of a run's Secrets."""

_NONCE = re.compile(r"[a-z0-9]{1,16}")
_REMEDY = "correct the agent's config in Paperclip; nothing was created"
# What the words of a template are called in the config.
_KEYS = {
    "arguments": "extraArgs",
    "deadline_seconds": "timeoutSec",
    "node_selector": "nodeSelector",
    "priority_class": "priorityClassName",
    "queue_name": "queueName",
    "runtime_class": "runtimeClassName",
    "working_dir": "cwd",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """All of a run that goes into the cluster, and what was decided on the way.

    `session_id` is the session that is resumed, "" for a new one; `cwd` and `bundle_key` are what a later run must
    have in common with it. `secret_values` are to be masked. `notes` are warnings for the run's log.
    """

    job: Manifest = field(repr=False)
    template: Template = field(repr=False)
    session_id: str
    cwd: str
    bundle_key: str
    arguments: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...]
    secret_values: tuple[str, ...] = field(repr=False)
    prompt: Prompt = field(repr=False)
    _prompt_data: tuple[Mapping[str, bytes], ...] = field(repr=False)
    _parcels: tuple[Parcel, ...] = field(repr=False)
    _variables: Mapping[str, str] = field(repr=False)
    _nonce: str

    @property
    def job_name(self) -> str:
        return marks.name(self.job)

    def secrets_for(self, job: Manifest) -> list[Manifest]:
        """The Secrets that the live `job` waits for, under the names that stand in it; they go when it goes.

        LauncherError where it is a Job of another plan: its Secrets could not be these.
        """
        prompt, variables = podspec.prompt_secrets(job), podspec.environment_secret(job)
        if len(prompt) != len(self._prompt_data) or bool(variables) != bool(self._variables):
            raise LauncherError(f"Job {marks.name(job)} was made for another prompt or other variables than this run's")
        bundle = podspec.bundle_secrets(job)
        # Their paths begin with the key: the same items are the same skills.
        if [one.get("items") for one in bundle] != [list(one.items) for one in self._parcels]:
            raise LauncherError(f"Job {marks.name(job)} was made for other skills or instructions than this run's")
        data = list(zip(prompt, self._prompt_data, strict=True))
        data += [(str(one["name"]), parcel.data) for one, parcel in zip(bundle, self._parcels, strict=True)]
        if variables:
            data.append((variables, {name: value.encode() for name, value in self._variables.items()}))
        return [_secret(job, name, content) for name, content in data]

    def renamed(self, nonce: str) -> Manifest:
        """The Job, waiting for Secrets of other names."""
        stem = f"{self.job_name}-"
        found: Manifest = json.loads(json.dumps(self.job).replace(f"{stem}{self._nonce}-", f"{stem}{nonce}-"))
        return found

    def spent(self) -> Plan:
        """What is still of use once all is made: neither the Job nor the prompt, which may have megabytes."""
        return replace(self, job={}, arguments=(), prompt=Prompt("", {}), _prompt_data=(), _parcels=(), _variables={})


def plan(
    request: RunRequest,
    options: RunOptions,
    dialect: Dialect,
    templates: Templates,
    *,
    owner: str,
    nonce: str,
    bundle: str = "",
    extras: Extras = NOTHING_EXTRA,
) -> Plan:
    """Plans one run. ConfigInvalid lists every problem.

    `nonce` (a-z and 0-9, at most 16) is new for each Job that is made, and part of the names of its Secrets. `bundle`
    is the folder of skills in the claim, "bundles/<company>/<key>"; without one they may come with `extras`.
    """
    if not _NONCE.fullmatch(nonce):
        raise ValueError(f"{nonce!r} is no nonce")
    template = templates.get(options.template or dialect.template)
    problems, notes = of_environment(options, template), list(options.notes)
    key = bundle.rpartition("/")[2] or extras.held.key
    parcels = () if bundle else pack(extras.held.files, key)
    cwd = working_dir(request, options, template, problems)
    session_id = _session(request, dialect, cwd, key, notes)
    place = Place(cwd, template.workspace_mount, template.prompt_mount, template.reserved, dialect.variables)
    found = variables(request, options, place, extras.inherited)
    texts = {**handover.file_texts(options, extras, dialect, template.prompt_mount, notes), **found.files}
    # A plain program reads nothing but its standard input.
    inline = extras.instructions if dialect.name == "command" else ""
    prompt = write_prompt(request, options, resumes=bool(session_id), instructions=inline)
    data = handover.split(prompt, texts, problems)
    paths = handover.paths(texts, extras, template)
    arguments = dialect.arguments(options, session_id, template.bundle_mount if bundle or parcels else "", paths)
    problems += [*handover.credential_problems(options, arguments), *found.problems]
    values = {
        **_identity(request, dialect, session_id),
        **_named(request, nonce, len(data), found),
        **_skills(request, nonce, bundle, key, parcels),
        **placement(options, template, problems),
        "owner": owner,
        "working_dir": cwd,
        "arguments": arguments,
        "environment": [{"name": name, "value": value} for name, value in found.literals.items()] or None,
    }
    job = _filled(template, values, problems)
    _add_marks(job, request, options, notes)
    _check_size(job, template, (*arguments, *found.literals, *found.literals.values(), *_texts(options, parcels)))
    masked = (*found.given, *handover.secret_texts(options.mcp_servers))
    resumed, told = (session_id, cwd, key, tuple(arguments)), (*notes, *found.notes)
    return Plan(job, template, *resumed, told, masked, prompt, (*data,), parcels, found.secret, nonce)


def workspace_of(agent_id: str) -> str:
    """The folder of an agent's workspace, below the root of the claim."""
    return f"workspaces/{slug_with_hash(agent_id)}"


def _identity(request: RunRequest, dialect: Dialect, session_id: str) -> dict[str, Any]:
    """Who the run is for: as the ids are in annotations, and as labels may be."""
    ids = {
        "run": request.run_id,
        "agent": request.agent_id,
        "company": request.company_id,
        "task": request.task_id,
        "session": session_id,
    }
    return {
        **{f"{what}_id": value or None for what, value in ids.items()},
        **{f"{what}_label": label_value(value) if value else None for what, value in ids.items()},
        "agent_name": request.agent_name or None,
        "adapter_type": dialect.adapter_type,
        "workspace_subpath": workspace_of(request.agent_id),
    }


def _skills(request: RunRequest, nonce: str, bundle: str, key: str, parcels: tuple[Parcel, ...]) -> dict[str, Any]:
    """Where the pod finds its skills: a folder of the claim, or Secrets."""
    stem = f"{job_name(request.agent_id, request.run_id)}-{nonce}"
    sources = [{"name": f"{stem}-b{number}", "items": one.items} for number, one in enumerate(parcels)]
    return {
        "bundle_subpath": bundle or None,
        "bundle_folder": folder_of(key) if parcels else None,
        "bundle_sources": sources or None,
    }


def _named(request: RunRequest, nonce: str, count: int, found: Variables) -> dict[str, Any]:
    name = job_name(request.agent_id, request.run_id)
    return {
        "job_name": name,
        "prompt_sources": [f"{name}-{nonce}-{number}" for number in range(count)],
        "env_from_secret": f"{name}-{nonce}-env" if found.secret else None,
    }


def _session(request: RunRequest, dialect: Dialect, cwd: str, bundle_key: str, notes: list[str]) -> str:
    """The session to go on with; "" where there is none, or where it belongs to another folder or other skills."""
    if not dialect.resumes:
        return ""
    saved = dialect.read_session(request.session_params) or dialect.read_session({"sessionId": request.session_id})
    if saved is None:
        return ""
    if saved.get("cwd", cwd) != cwd:
        notes.append(f"the session was made in {saved['cwd']}, and this run is in {cwd}: a new session is begun")
        return ""
    if saved.get("promptBundleKey", bundle_key) != bundle_key:
        notes.append("skills or instructions have changed since the session was made: a new session is begun")
        return ""
    return saved["sessionId"]


def _filled(template: Template, values: Mapping[str, Any], problems: list[str]) -> Manifest:
    try:
        job = template.job.fill({name: value for name, value in values.items() if value is not None})
    except PlaceholderError as error:
        problems.extend(map(_in_words_of_config, error.problems))
    if problems:
        raise ConfigInvalid(problems, _REMEDY)
    return job


def _in_words_of_config(problem: str) -> str:
    word = re.match("[a-z_]+", problem)
    return _KEYS.get(word[0], word[0]) + problem[word.end() :] if word else problem


def _add_marks(job: Manifest, request: RunRequest, options: RunOptions, notes: list[str]) -> None:
    """What the run has in common with others where it has no task, and the user's labels on Job and pod; what stands
    there already is not theirs to change.
    """
    if request.task_key and not request.task_id:
        job["metadata"]["annotations"][marks.TASK_KEY] = request.task_key
    wanted = options.labels
    if not wanted:
        return
    for described in (job["metadata"], job["spec"]["template"]["metadata"]):
        described["labels"] = {**wanted, **described["labels"]}
    notes.extend(
        f"labels: {key} is left out, since the environment sets it"
        for key, value in wanted.items()
        if job["metadata"]["labels"][key] != value
    )


def _texts(options: RunOptions, parcels: tuple[Parcel, ...]) -> Iterator[str]:
    """What labels and skills bring into a Job."""
    yield from (*options.labels, *options.labels.values())
    yield from ("{key: f0000, mode: 493, path: }" + one["path"] for parcel in parcels for one in parcel.items)


def _check_size(job: Manifest, template: Template, texts: tuple[str, ...]) -> None:
    # In JSON a character has six bytes at most; all other values of a run are small. Writing it out takes longer.
    if len(template.job.job) + 6 * sum(map(len, texts)) < LARGEST_JOB // 2:
        return
    size = len(json.dumps(job, ensure_ascii=False, separators=(",", ":")).encode())
    if size >= LARGEST_JOB:
        problem = f"the Job has {size} bytes, and fewer than {LARGEST_JOB} can be stored"
        raise ConfigInvalid([f"{problem}: extraArgs, labels and skills are what grows"], _REMEDY)


def _secret(job: Manifest, name: str, data: Mapping[str, bytes]) -> Manifest:
    described = job["metadata"]
    run = {marks.RUN_ID: described["labels"][marks.RUN_ID], marks.AGENT_ID: described["labels"][marks.AGENT_ID]}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": described["name"],
        "uid": described["uid"],
        "blockOwnerDeletion": False,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": described["namespace"],
            "labels": {labels.NAME: "paperclip-agent", **marks.labels(SECRET), **run},
            "annotations": {key: marks.annotation(job, key) for key in run},
            "ownerReferences": [owner],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
