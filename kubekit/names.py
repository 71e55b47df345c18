"""Names, labels and their limits: what Kubernetes accepts, what is wrong with the rest, and how to shorten.

cdk8s checks none of this: a label of 100 characters goes through it and is refused by the cluster.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

MAX_LABEL = 63
MAX_SUBDOMAIN = 253

_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_SERVICE_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")

_NOT_DNS = re.compile(r"[^a-z0-9-]")
_NOT_SUBDOMAIN = re.compile(r"[^a-z0-9.-]")
_NOT_QUALIFIED = re.compile(r"[^A-Za-z0-9_.-]")

_DIGITS = 16
"""Hex digits of the hash: 64 bits, so ten million names collide with a chance of 1 in 370,000."""
_SHORTENED = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}\Z")
_SHORTEST_LIMIT = _DIGITS + 2
_JOB_PREFIX = "run-"


def is_dns_label(text: str) -> bool:
    """RFC 1123: a-z, 0-9 and "-", at most 63 characters; the names of namespaces and most objects."""
    return len(text) <= MAX_LABEL and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """RFC 1123: labels joined by dots, at most 253 characters; one label alone has no limit upstream."""
    return len(text) <= MAX_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_service_name(text: str) -> bool:
    """RFC 1035: a DNS label that begins with a letter; the names of Services."""
    return len(text) <= MAX_LABEL and _SERVICE_NAME.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """[prefix/]name: the prefix a DNS subdomain, the name 1 to 63 characters. So are annotation keys."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= MAX_LABEL and _QUALIFIED.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Empty, or 1 to 63 of letters, digits, "-", "_" and ".", with a letter or digit at both ends."""
    return not text or (len(text) <= MAX_LABEL and _QUALIFIED.fullmatch(text) is not None)


def explain_dns_label(text: str) -> str:
    """What keeps `text` from being a DNS label, as the rest of a sentence about it; "" where nothing does."""
    return _explain(text, MAX_LABEL, _NOT_DNS, 'a-z, 0-9 and "-"')


def explain_dns_subdomain(text: str) -> str:
    """What keeps `text` from being a DNS subdomain; "" where nothing does."""
    problem = _explain(text, MAX_SUBDOMAIN, _NOT_SUBDOMAIN, 'a-z, 0-9, "-" and "."')
    if problem or is_dns_subdomain(text):
        return problem
    if ".." in text:
        return f"holds two dots in a row at {text.index('..') + 1}; between dots must stand a-z, 0-9 or '-'"
    match = re.search(r"-\.|\.-", text)
    at = match.start() + 1 if match else 1
    return f'holds "-" beside a dot at {at}; each part between dots must begin and end with a-z or 0-9'


def explain_service_name(text: str) -> str:
    """What keeps `text` from being the name of a Service; "" where nothing does."""
    problem = explain_dns_label(text)
    if not problem and not is_service_name(text):
        return f'begins with "{text[0]}"; the name of a Service begins with a letter (RFC 1035)'
    return problem


def explain_label_key(text: str) -> str:
    """What keeps `text` from being the key of a label or annotation; "" where nothing does."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        problem = explain_dns_subdomain(prefix)
        if problem:
            return f'has a part before "/" that {problem}'
    problem = _explain(name, MAX_LABEL, _NOT_QUALIFIED, 'letters, digits, "-", "_" and "."')
    return f'has a part after "/" that {problem}' if problem and slash else problem


def explain_label_value(text: str) -> str:
    """What keeps `text` from being the value of a label; "" where nothing does."""
    return text and _explain(text, MAX_LABEL, _NOT_QUALIFIED, 'letters, digits, "-", "_" and "."')


def slug_with_hash(raw: str, limit: int = MAX_LABEL) -> str:
    """A DNS label for `raw` of at most `limit` characters (18 to 63): different texts get different labels.

    A legal label comes back unchanged; all else becomes what is left of it, "-" and 16 hex digits of the
    SHA-256 of `raw`. A legal label that ends like that could be the short form of another text, so it gets
    digits of its own. Hence a second pass over a short form changes it: shorten once, from the full text.
    """
    _check_limit(limit)
    if len(raw) <= limit and is_dns_label(raw) and not _SHORTENED.search(raw):
        return raw
    return _shorten(_slug(raw, limit), raw, limit)


def job_name(agent_id: str, run_id: str) -> str:
    """The name of the Job of a run: "run-", what is legal of the run's id, and a hash of agent and run.

    Two pairs never share a name, and a pair always has the same one: so a second create of the same run answers 409
    and means "mine". At most 63 characters, since the Job controller makes a label of it.
    """
    # The length says where the agent ends: no two pairs make the same text.
    pair = f"{len(agent_id)}:{agent_id}{run_id}"
    return _JOB_PREFIX + _shorten(_slug(run_id, MAX_LABEL), pair, MAX_LABEL - len(_JOB_PREFIX))


def label_value(raw: str, limit: int = MAX_LABEL) -> str:
    """The value of a label for `raw`: as slug_with_hash, but "", capitals, "_" and "." are legal and stay."""
    _check_limit(limit)
    if len(raw) <= limit and is_label_value(raw) and not _SHORTENED.search(raw):
        return raw
    plain = unicodedata.normalize("NFKD", raw[: 4 * limit]).encode("ascii", "ignore").decode()
    return _shorten(re.sub("[^A-Za-z0-9_.]+", "-", plain), raw, limit)


def _slug(raw: str, limit: int) -> str:
    """What is left of `raw` in a DNS label, before it is cut to `limit`."""
    plain = unicodedata.normalize("NFKD", raw[: 4 * limit]).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain)


def _check_limit(limit: int) -> None:
    if not _SHORTEST_LIMIT <= limit <= MAX_LABEL:
        raise ValueError(f"a limit of {limit} characters; it must be {_SHORTEST_LIMIT} to {MAX_LABEL}")


def _shorten(words: str, raw: str, limit: int) -> str:
    digits = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    words = words.strip("-_.")[: limit - _DIGITS - 1].rstrip("-_.")
    return f"{words or 'x'}-{digits}"


def _explain(text: str, limit: int, bad: re.Pattern[str], allowed: str) -> str:
    if not text:
        return f"is empty; it needs 1 to {limit} characters"
    if len(text) > limit:
        return f"has {len(text)} characters; at most {limit} are allowed"
    match = bad.search(text)
    if match:
        return f"holds {_shown(match[0])} at {match.start() + 1}; only {allowed} are allowed"
    for side, char in (("begins", text[0]), ("ends", text[-1])):
        if not char.isalnum():
            return f'{side} with "{char}"; it must begin and end with a letter or digit'
    return ""


def _shown(char: str) -> str:
    return f'"{char}"' if char.isprintable() else f"U+{ord(char):04X}"
