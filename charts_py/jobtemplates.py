"""Makes the Job templates of an environment: Jinja gives them their structure, once, from the config.

Jinja runs in a sandbox with StrictUndefined and sees only typed settings, each through `tojson`. The values
of a run never come here: the launcher puts them into the parsed tree (kubekit.jobtemplate).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2 import TemplateError as JinjaError
from jinja2.sandbox import SandboxedEnvironment

from charts_py.errors import ConfigError
from kubekit import yamlread, yamlwrite
from kubekit.identity import Manifest
from kubekit.jobtemplate import Contract, JobTemplate, PlaceholderError, TemplateError

MAX_CONFIG_MAP_BYTES = 900 * 1024
"""Under the 1 MiB that Kubernetes takes, with room for the managed fields."""

_SIZES: tuple[Literal["smallest", "example"], ...] = (
    "smallest",
    "example",
)  # the largest: by a test, 5 ms each
_RESERVED_PREFIXES = ("paperclip.io/", "app.kubernetes.io/", "kueue.x-k8s.io/", "batch.kubernetes.io/")
CONTRACT, FACTS = "contract", "facts"
"""The files beside the templates: what may be put into them, and what the policies must know of the cluster."""


@dataclass(frozen=True)
class SecretVariable:
    """A variable of every run, from one key of a Secret in the agents' namespace."""

    name: str
    secret: str
    key: str
    optional: bool = False


@dataclass(frozen=True)
class ScratchVolume:
    """A writable folder of the pod that ends with it; the root file system is read-only."""

    name: str
    mount_path: str
    size_limit: str


@dataclass(frozen=True)
class JobKindSettings:
    """One template. `image` is pinned by digest; `resources` has requests and limits, complete."""

    name: str
    program: Literal["claude", "generic"]
    image: str
    resources: Mapping[str, Mapping[str, str]]
    secret_environment: tuple[SecretVariable, ...] = ()


@dataclass(frozen=True)
class JobTemplateSettings:
    """What all templates of an environment share. `api_url` is PAPERCLIP_API_URL as pods see it.

    `home` and `working_dir` lie in `workspace_mount`, so that sessions and files outlive a run. Times are
    seconds. `user` is the user, the group and the fsGroup: the claim's files belong to it.
    """

    namespace: str
    service_account: str
    claim_name: str
    api_url: str
    kinds: tuple[JobKindSettings, ...]
    image_pull_policy: Literal["Always", "IfNotPresent"] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    workspace_mount: str = "/workspace"
    home: str = "/workspace/home"
    working_dir: str = "/workspace/project"
    prompt_mount: str = "/run/paperclip/prompt"
    bundle_mount: str = "/run/paperclip/bundle"
    scratch: tuple[ScratchVolume, ...] = (ScratchVolume("tmp", "/tmp", "2Gi"),)  # noqa: S108 - a volume of its own
    user: int = 1000
    deadline_seconds: int = 4 * 3600
    maximum_deadline_seconds: int = 7 * 86400
    time_to_live_seconds: int = 86400
    termination_grace_period_seconds: int = 30
    node_selector: Mapping[str, str] | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    priority_class: str | None = None
    runtime_class: str | None = None
    queue_name: str | None = None
    labels: Mapping[str, str] | None = None


def synthesize(settings: JobTemplateSettings, templates: Path | None = None) -> tuple[JobTemplate, ...]:
    """One template for each of `settings.kinds`; ConfigError where settings, template and contract disagree.

    `templates` is the folder of the sources, by default the one that comes with the program. Each template
    has been filled with the smallest, the example and the largest values of its contract.
    """
    folder = templates or _default_folder()
    _check(settings)
    contract = _contract(folder / "contract.yaml")
    script = _script(folder / "entry.sh")
    environment = _environment(folder)
    made = tuple(_template(settings, kind, environment, contract, script) for kind in settings.kinds)
    for template in made:
        for size in _SIZES:
            try:
                template.fill(template.values(size))
            except PlaceholderError as error:
                raise ConfigError(
                    f"Job template {template.name}: the {size} values of the contract do not fit: {error}",
                    "mend the settings of the Jobs, or the placeholder in contract.yaml",
                ) from error
    return made


def config_map(
    templates: tuple[JobTemplate, ...],
    known: Mapping[str, Any],
    name: str,
    namespace: str,
    labels: Mapping[str, str],
) -> Manifest:
    """The ConfigMap that the launcher loads: <template>.json for each, contract.json, and `known` as facts.json."""
    data = {f"{template.name}.json": template.to_text() for template in templates}
    data[f"{CONTRACT}.json"] = templates[0].contract.text if templates else ""
    data[f"{FACTS}.json"] = json.dumps(known, sort_keys=True, separators=(",", ":"))
    size = sum(len(key.encode()) + len(text.encode()) for key, text in data.items())
    if size > MAX_CONFIG_MAP_BYTES:
        raise ConfigError(
            f"the Job templates have {size} bytes; ConfigMap {name} takes {MAX_CONFIG_MAP_BYTES}",
            "declare fewer kinds of Job, or smaller ones",
        )
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def files(templates: tuple[JobTemplate, ...], known: Mapping[str, Any]) -> Mapping[str, bytes]:
    """The same for people: file name -> YAML. None is a Kubernetes object: nothing may apply this folder."""
    trees: dict[str, Any] = {template.name: json.loads(template.to_text()) for template in templates}
    if templates:
        trees |= {CONTRACT: json.loads(templates[0].contract.text), FACTS: known}
    return {f"{name}.yaml": yamlwrite.dump(tree).encode() for name, tree in sorted(trees.items())}


def _template(
    settings: JobTemplateSettings,
    kind: JobKindSettings,
    environment: SandboxedEnvironment,
    contract: Contract,
    script: str,
) -> JobTemplate:
    context = {**asdict(settings), "kind": asdict(kind), "script": script, "labels": settings.labels or {}}
    try:
        text = environment.get_template(f"{kind.program}.yaml.j2").render(context)
        tree = yamlread.read(text, f"{kind.program}.yaml.j2 (rendered)").value
        return JobTemplate.of(kind.name, tree, contract, _bounds(settings, kind))
    except JinjaError as error:
        place = f"{getattr(error, 'filename', None) or kind.program}:{getattr(error, 'lineno', None) or 1}"
        raise ConfigError(f"Job template {kind.name}: {place}: {error}", "mend the template") from error
    except yamlread.YamlProblem as problem:
        raise ConfigError(f"Job template {kind.name}: {problem}", problem.remedy) from problem
    except TemplateError as error:
        raise ConfigError(
            f"Job template {kind.name}: {'; '.join(error.problems)}",
            "template, contract.yaml and the settings of the Jobs must agree",
        ) from error


def _bounds(settings: JobTemplateSettings, kind: JobKindSettings) -> dict[str, dict[str, Any]]:
    """What the environment decides about placeholders: defaults, and limits that the contract leaves open."""
    defaults: dict[str, Any] = {
        "image": kind.image,
        "resources": {part: dict(amounts) for part, amounts in kind.resources.items()},
        "deadline_seconds": settings.deadline_seconds,
        "working_dir": settings.working_dir,
        "node_selector": dict(settings.node_selector or {}) or None,
        "tolerations": [dict(toleration) for toleration in settings.tolerations] or None,
        "priority_class": settings.priority_class,
        "runtime_class": settings.runtime_class,
        "queue_name": settings.queue_name,
    }
    bounds = {name: {"default": value} for name, value in defaults.items() if value is not None}
    bounds["deadline_seconds"]["maximum"] = settings.maximum_deadline_seconds
    bounds["working_dir"]["inside"] = settings.workspace_mount
    if kind.program == "generic":
        bounds["arguments"] = {"minimum": 1}
    return bounds


def _check(settings: JobTemplateSettings) -> None:
    """What no placeholder guards."""
    names = [kind.name for kind in settings.kinds]
    if len(set(names)) != len(names) or not {CONTRACT, FACTS}.isdisjoint(names) or not names:
        raise ConfigError(
            f"the kinds of Job are {', '.join(names) or 'none'}",
            f'declare at least one, each with a name of its own, none of them "{CONTRACT}" or "{FACTS}"',
        )
    for what, path in (("home", settings.home), ("working_dir", settings.working_dir)):
        if not path.startswith(f"{settings.workspace_mount}/"):
            raise ConfigError(
                f"{what} of the agents is {path}, which is not in the workspace {settings.workspace_mount}",
                "what an agent keeps must lie on the claim; choose a folder below the mount",
            )
    for key in settings.labels or {}:
        if key.startswith(_RESERVED_PREFIXES):
            raise ConfigError(f"the label {key} is not free on agent Jobs", "choose another prefix")


def _contract(path: Path) -> Contract:
    return _checked_contract(_text(path), str(path))


@lru_cache(maxsize=8)
def _checked_contract(text: str, path: str) -> Contract:
    try:
        return Contract.of(yamlread.read(text, path).value, path)
    except yamlread.YamlProblem as problem:
        raise ConfigError(str(problem), problem.remedy) from problem
    except TemplateError as error:
        raise ConfigError(str(error), "see README.md beside it for what an entry has") from error


def _script(path: Path) -> str:
    text = _text(path)
    # Kubernetes expands $(NAME) in a command and halves doubled dollar signs before the shell sees them.
    if found := re.search(r"\$[$(]", text):
        line = text.count("\n", 0, found.start()) + 1
        raise ConfigError(
            f"{path}:{line}: Kubernetes would change {found[0]!r} in the script",
            "write it without command substitution, arithmetic and the process id",
        )
    return text


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", "name the folder of the Job templates") from error


@lru_cache(maxsize=8)
def _environment(folder: Path) -> SandboxedEnvironment:
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_function"] = _scalar
    return environment


def _scalar(value: object, **_: object) -> str:
    """JSON that is YAML too: YAML has no surrogate pairs, so what is not ASCII stands as one long escape."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, default=_refused)
    return re.sub(r"[^\x20-\x7e]", lambda match: f"\\U{ord(match[0]):08x}", text)


def _refused(value: object) -> str:
    # An undefined name says which one it is as soon as it is made text.
    raise TypeError(f"{value} is not JSON")


def _default_folder() -> Path:
    """In a wheel the templates lie in the package, in the repository beside it."""
    packaged = Path(__file__).parent / "_templates"
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / "templates"
