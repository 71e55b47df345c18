"""What looks like a credential of git: names of variables, files, settings, and the tokens of the known hosts."""

from __future__ import annotations

import re

NAMES = (
    *("AZURE_DEVOPS_EXT_PAT", "BITBUCKET_TOKEN", "CI_JOB_TOKEN", "GH_ENTERPRISE_TOKEN", "GH_PAT", "GH_TOKEN"),
    *("GITEA_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_PAT", "GITHUB_TOKEN", "GITLAB_TOKEN", "GIT_ASKPASS"),
    *("GIT_CREDENTIALS", "GIT_PASSWORD", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_TOKEN", "SSH_ASKPASS"),
    *("SSH_AUTH_SOCK", "SSH_PRIVATE_KEY"),
)
"""Variables, in capitals, that git, its hosts and their tools read credentials from."""
FILES = r"(^|/)(\.ssh|\.git-credentials|\.netrc|ssh-privatekey|id_(rsa|dsa|ecdsa|ed25519))(/|$)"
"""Paths, for Python and CEL alike."""
SETTINGS = r"^(credential\.|http\.(.+\.)?extraheader)"
"""Settings of git that hold or bring credentials, for Python and CEL alike."""

_HARMLESS = re.compile(
    r"GIT_((AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|TERMINAL_PROMPT|EDITOR|PAGER|CEILING_DIRECTORIES|OPTIONAL_LOCKS)"
)
_NAME = re.compile(
    r"GIT_.*|(GITHUB|GITLAB|GITEA|BITBUCKET|GH)_(.*_)?(TOKEN|PAT|PASSWORD|KEY|SECRET)(_.*)?|NETRC|SSH_.*KEY"
)
_VALUE = re.compile(
    # GitHub's and GitLab's tokens by their published prefixes; keys; a line of .netrc; a URL with a password in it.
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}|gl(?:pat|rt|cbt|ptt|dt|soat)-[A-Za-z0-9_-]{16})"
    r"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
    r"|\bmachine\s+\S+\s+login\s+\S+\s+password\s"
    r"|\b(?:https?|git|ssh)(?:\+[a-z]+)?://[^\s/:@]+:[^\s/@]+@"
)
_PROXY = re.compile(r"(https?|all|no|ftp)_proxy", re.IGNORECASE)
_SETTING = re.compile(SETTINGS)


def named(name: str) -> bool:
    """Whether a variable of this name holds a credential of git, whatever is in it."""
    capital = name.upper()
    if capital in NAMES:
        return True
    return _NAME.fullmatch(capital) is not None and _HARMLESS.fullmatch(capital) is None


def held(text: str) -> bool:
    """Whether a text holds what looks like a credential of git."""
    return _VALUE.search(text) is not None or _SETTING.search(text) is not None


def in_variable(name: str, value: str) -> bool:
    """Whether a variable is or holds one; the address of a proxy may have a password in it."""
    return named(name) or (held(value) and not _PROXY.fullmatch(name))
