"""What can go wrong, as a tree; the program ends with the exit code of the class.

GitopsError                1
├── UsageError             2   the command line
├── ConfigError            3   the config, images.lock, waivers or templates
├── ToolMissing            4   node, kubeconform, kubectl
└── ClusterUnreachable     5   a cluster or a registry
"""

from __future__ import annotations


class GitopsError(Exception):
    """`message` says what is wrong and where; `remedy` says how to mend it. Neither ever holds a secret's value."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        """An error passes from one process to another with all that it carries, whatever its own arguments are."""
        return (_restored, (type(self), self.args, self.__dict__))


class UsageError(GitopsError):
    exit_code = 2


class ConfigError(GitopsError):
    exit_code = 3


class ToolMissing(GitopsError):
    exit_code = 4


class ClusterUnreachable(GitopsError):
    exit_code = 5


def _restored(kind: type[GitopsError], arguments: tuple[object, ...], fields: dict[str, object]) -> GitopsError:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(fields)
    return error
