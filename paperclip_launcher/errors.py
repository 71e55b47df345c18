"""The errors of this package, as a tree:

LauncherError
├── ConfigInvalid          what was asked for cannot be done; lists every problem
│   ├── AgentIdInvalid     the agent's id is empty or no text
│   ├── TemplateInvalid    the Job templates cannot be read
│   └── PolicyRefused      a policy forbids the Job
├── ApiError               the API server said no (cluster/errors.py)
├── Detached               the launcher has let go of a run, which goes on
├── NotFoundRun            no such run in the namespace
├── OwnedElsewhere         another launcher looks after the run
└── Unreachable            the API server did not answer, and the retries are used up
"""

from __future__ import annotations

from collections.abc import Sequence


class LauncherError(Exception):
    """Of this package. `remedy` says how to mend it, "" where that is not known."""

    remedy = ""


class ConfigInvalid(LauncherError):
    """`problems`: one sentence each, with the key that it is about; nothing has been created."""

    code = "k8s_config_invalid"

    def __init__(self, problems: Sequence[str], remedy: str = "") -> None:
        self.problems = tuple(problems)
        self.remedy = remedy
        super().__init__("; ".join(self.problems))


class AgentIdInvalid(ConfigInvalid):
    """The agent has no id to name a Job by."""

    code = "k8s_agent_id_invalid"


class TemplateInvalid(ConfigInvalid):
    """The Job templates cannot be read, or do not fit their contract."""

    code = "k8s_template_invalid"


class PolicyRefused(ConfigInvalid):
    """A policy forbids the Job; each problem names its policy."""

    code = "k8s_policy_refused"


class Unreachable(LauncherError):
    """No answer from the API server in the time that the retry table allows."""

    remedy = "look whether the API server runs and this machine reaches it; the run goes on without us"


class Detached(LauncherError):
    """The launcher has ended, or has lost its identity, before the run had a result; the run goes on."""

    remedy = "attach to the run, or send its request again"


class OwnedElsewhere(LauncherError):
    """Another launcher, which is alive, looks after the run."""

    code = "k8s_run_owned_elsewhere"
    remedy = "follow it there, or by `paperclip-launcher logs --follow`, or wait until that launcher has ended"


class NotFoundRun(LauncherError):
    """No such run in the namespace."""

    remedy = "paperclip-launcher list shows what is there"
