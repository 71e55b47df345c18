"""What a run's Job holds: texts that fit, no credentials for git, no prompt in a command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubekit import gitcredentials
from kubekit.podspec import ContainerView
from policies.cel import Cel
from policies.jobs.agents import AGENT, agent_pods
from policies.model import Fault
from policies.registry import policy
from policies.world import Entry, World, mapping, sequence

LONGEST_TEXT = 96 * 1024
"""Bytes of one variable or argument. Linux stops at 128 KiB (MAX_ARG_STRLEN), name and all."""
LARGEST_JOB = 900 * 1024
"""Bytes of JSON. etcd stops at 1.5 MiB, and managed fields and status come on top."""
LONGEST_SCRIPT = 16 * 1024
"""Bytes of a shell's text: a script of ours has some KiB, and a prompt in it more."""

_EXECVE = "https://man7.org/linux/man-pages/man2/execve.2.html"
_EXPANSION = "https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/"
_TEXTS = "(c.?command.orValue([]) + c.?args.orValue([]))"
_GIT_NAMES, _GIT_FILES, _GIT_SETTINGS = gitcredentials.NAMES, gitcredentials.FILES, gitcredentials.SETTINGS
_GIT_FILE = re.compile(_GIT_FILES)
_GIT_SETTING = re.compile(_GIT_SETTINGS)
_GIT_ITEM = f"!i.key.matches('{_GIT_FILES}') && !i.path.matches('{_GIT_FILES}')"

_SHELLS = r"(^|/)(ba|da|a|z|k)?sh$"
_SHELL = re.compile(_SHELLS)
_FLAGS = r"^-[a-z]*c$"
_FLAG = re.compile(_FLAGS)
_PRINTS = r"(echo|eval)[^\n;|&]*[$][{]?[A-Za-z0-9_]*(PROMPT|Prompt|prompt)"
_PRINT = re.compile(_PRINTS)


@policy(
    "job-prompt-size",
    title="No variable or argument is larger than a process can be given",
    rationale="Linux starts no program with a text of 128 KiB or with a NUL in it: the container fails with 'argument "
    "list too long', after the run has been paid for with a place in the quota.",
    remedy="put the text into the Secret of the prompt, which is mounted",
    kinds=("Job",),
    links=(_EXECVE,),
    cel=Cel(
        "!variables.agent || variables.containers.all(c,"
        " c.?env.orValue([]).all(e, size(bytes(e.?value.orValue('').replace('$$', '$')))"
        f" <= {LONGEST_TEXT} && !e.?value.orValue('').contains('\\u0000'))"
        f" && {_TEXTS}.all(t, size(bytes(t.replace('$$', '$'))) <= {LONGEST_TEXT} && !t.contains('\\u0000')))",
        variables=AGENT,
        partly="what variables from Secrets and ConfigMaps hold",
    ),
)
def job_prompt_size(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pod = agent_pods(entry)
    for container in pod.containers if pod else ():
        for pointer, text in _process_texts(container):
            if len(text) > LONGEST_TEXT // 4 and (size := _size(text)) > LONGEST_TEXT:
                said = f'container "{container.name}": a text of {size} bytes; it must have {LONGEST_TEXT} at most'
                yield Fault(pointer, said)
            if "\x00" in text:
                yield Fault(pointer, f'container "{container.name}": holds NUL, which no process can be given')


def _process_texts(container: ContainerView) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(sequence(container.spec.get("env"))):
        value = mapping(item).get("value")
        if isinstance(value, str):
            yield f"{container.pointer}/env/{index}/value", value
    yield from _words(container)


def _words(container: ContainerView) -> Iterator[tuple[str, str]]:
    """(pointer, text) of command and arguments."""
    for field in ("command", "args"):
        for index, text in enumerate(sequence(container.spec.get(field))):
            if isinstance(text, str):
                yield f"{container.pointer}/{field}/{index}", text


def _size(text: str) -> int:
    """Bytes as the process gets it: of two dollar signs Kubernetes makes one."""
    return len(text.encode("utf-8", "surrogatepass")) - text.count("$$")


@policy(
    "job-podspec-size",
    title="A Job is small enough to be stored",
    rationale="The API server refuses an object beyond 1.5 MiB, and what grows with a run (a prompt, arguments) "
    "reaches that one day.",
    remedy="put what is large into Secrets or onto the claim, and mount it",
    kinds=("Job",),
    links=("https://etcd.io/docs/v3.5/dev-guide/limit/",),
)
def job_podspec_size(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    if agent_pods(entry) is None:
        return
    try:
        text = json.dumps(entry.manifest, ensure_ascii=False, separators=(",", ":"), default=str, skipkeys=True)
    except ValueError:
        return  # a number beyond all sizes: its schema says so
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size >= LARGEST_JOB:
        yield Fault("", f"the Job has {size} bytes as JSON, and must have fewer than {LARGEST_JOB}")


@policy(
    "job-no-git-credentials",
    title="An agent's pod holds no credentials for git",
    rationale="What the agent can read, a text that it reads can make it use: a token for git is a way into every "
    "repository that it opens.",
    remedy="let the launcher's side push, or give the agent a short-lived token by its own tools",
    kinds=("Job",),
    links=("https://git-scm.com/docs/gitcredentials",),
    cel=Cel(
        "!variables.agent || (variables.containers.all(c, c.?env.orValue([]).all(e,"
        " !(e.name.upperAscii() in variables.gitNames)"
        f" && !e.?value.orValue('').matches('{_GIT_SETTINGS}')"
        " && !(e.?valueFrom.?secretKeyRef.?key.orValue('').upperAscii() in variables.gitNames)"
        f" && !e.?valueFrom.?secretKeyRef.?key.orValue('').matches('{_GIT_FILES}'))"
        f" && {_TEXTS}.all(t, !t.matches('{_GIT_SETTINGS}'))"
        f" && c.?volumeMounts.orValue([]).all(m, !m.mountPath.matches('{_GIT_FILES}')"
        f" && !m.?subPath.orValue('').matches('{_GIT_FILES}')))"
        f" && variables.volumes.all(v, v.?secret.?items.orValue([]).all(i, {_GIT_ITEM})"
        " && v.?projected.?sources.orValue([]).all(s,"
        f" s.?secret.?items.orValue([]).all(i, {_GIT_ITEM}))))".replace("\\", "\\\\"),
        variables={**AGENT, "gitNames": f"[{', '.join(map(repr, _GIT_NAMES))}]"},
        partly="what a Secret holds that is taken as a whole (envFrom, a volume without items)",
    ),
)
def job_no_git_credentials(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pod = agent_pods(entry)
    if pod is None:
        return
    for container in pod.containers:
        who = f'container "{container.name}"'
        for pointer, what in _git_in(container):
            yield Fault(pointer, f"{who} {what}, and must have none")
    for pointer, volume in pod.items("volumes"):
        for where in _git_items(volume):
            said = f'volume "{volume.get("name", "")}" brings a credential of git, and must bring none'
            yield Fault(f"{pointer}{where}", said)


def _git_items(volume: Mapping[str, Any]) -> Iterator[str]:
    """Where in a volume of one Secret or of several a key or a path is a file of credentials."""
    sources = enumerate(sequence(mapping(volume.get("projected")).get("sources")))
    secrets = [("/secret", volume), *((f"/projected/sources/{index}/secret", mapping(one)) for index, one in sources)]
    for where, holder in secrets:
        for index, item in enumerate(sequence(mapping(holder.get("secret")).get("items"))):
            if any(_GIT_FILE.search(str(mapping(item).get(key, ""))) for key in ("key", "path")):
                yield f"{where}/items/{index}"


def _git_in(container: ContainerView) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(sequence(container.spec.get("env"))):
        variable = mapping(item)
        name, value = str(variable.get("name", "")), variable.get("value")
        key = str(mapping(mapping(variable.get("valueFrom")).get("secretKeyRef")).get("key", ""))
        credential = name.upper() in _GIT_NAMES or key.upper() in _GIT_NAMES or _GIT_FILE.search(key)
        if credential or (isinstance(value, str) and _GIT_SETTING.search(value)):
            yield f"{container.pointer}/env/{index}", f"has the variable {name}, a credential of git"
    for pointer, text in _words(container):
        if _GIT_SETTING.search(text):
            yield pointer, "sets up credentials of git by an argument"
    for index, item in enumerate(sequence(container.spec.get("volumeMounts"))):
        mount = mapping(item)
        if any(_GIT_FILE.search(str(mount.get(key, ""))) for key in ("mountPath", "subPath")):
            yield f"{container.pointer}/volumeMounts/{index}", "mounts a credential of git"


@policy(
    "job-no-shell-text",
    title="The prompt never becomes part of a command",
    rationale="A shell runs what stands in its text, and echo changes it (busybox stops at \\c). Kubernetes itself "
    "puts variables into commands where $(NAME) stands.",
    remedy="let the program read the prompt from the mounted file; write $$(NAME) for a text that is to stay as it is",
    kinds=("Job",),
    links=(_EXPANSION,),
    cel=Cel(
        "!variables.agent || variables.containers.all(c,"
        f" {_TEXTS}.filter(t, t.replace('$$', '').contains('$(')).all(t,"
        " c.?env.orValue([]).all(e, !t.replace('$$', '').contains('$(' + e.name + ')')))"
        f" && (size({_TEXTS}) < 3 || !{_TEXTS}[0].matches('{_SHELLS}') || !{_TEXTS}[1].matches('{_FLAGS}')"
        f" || (size(bytes({_TEXTS}[2])) <= {LONGEST_SCRIPT}"
        f" && !{_TEXTS}[2].matches('{_PRINTS}'))))".replace("\\", "\\\\"),
        variables=AGENT,
    ),
)
def job_no_shell_text(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    pod = agent_pods(entry)
    for container in pod.containers if pod else ():
        who = f'container "{container.name}"'
        words = list(_words(container))
        for pointer, text in words:
            for name in _expanded(container.spec, text):
                said = (
                    f"{who} has the variable {name} put into its command by $({name}); it must be read by the program"
                )
                yield Fault(pointer, said)
        script = _script(words)
        if script is None:
            continue
        pointer, text = script
        if (size := len(text.encode("utf-8", "surrogatepass"))) > LONGEST_SCRIPT:
            said = (
                f"{who} has a shell script of {size} bytes; one must have {LONGEST_SCRIPT} at most, and no prompt in it"
            )
            yield Fault(pointer, said)
        if _PRINT.search(text):
            yield Fault(pointer, f"{who} hands the prompt to echo or eval in a shell; it must be read from a file")


def _expanded(container: Mapping[str, Any], text: str) -> Iterator[str]:
    """The variables of the container that Kubernetes puts into `text`; of two dollar signs none begins one."""
    if "$(" not in text:
        return
    left = text.replace("$$", "")
    if "$(" in left:
        declared = (mapping(item).get("name") for item in sequence(container.get("env")))
        yield from sorted({name for name in declared if isinstance(name, str) and f"$({name})" in left})


def _script(words: list[tuple[str, str]]) -> tuple[str, str] | None:
    """The text that a shell is started with: sh -c <text>."""
    if len(words) < 3 or not _SHELL.search(words[0][1]) or not _FLAG.search(words[1][1]):
        return None
    return words[2]
