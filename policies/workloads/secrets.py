"""Secrets in clear: what a value looks like, whatever its name is.

Names tell little: SECRETS_DIR holds none, and DSN may. So texts are held against the forms that issuers gave their keys
for this very purpose, and against what only chance writes.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from kubekit.pointers import join
from policies.cel import Cel
from policies.model import Fault, Severity
from policies.registry import policy
from policies.world import PODS, Entry, World, mapping, sequence

_ACCOUNT_URL = (
    r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:\x22\x27<>]*"
    r":[A-Z_]*[^\s/?#@:\x22\x27<>$*{%A-Z_][^\s/?#@\x22\x27<>]*@([^\ss/@]|s[^h]|sh[^a]|sha[^2])"
)
"""Not with $(NAME), ${NAME}, {{ name }}, <name>, %s, *** or NAME: those are filled in. Nor image:tag@sha256:..."""
_FORMS: tuple[tuple[str, str, str], ...] = (
    # What must be in the text, the form (RE2 as well as Python, since CEL judges by it too), what it is.
    ("sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{16,}", "an Anthropic API key"),
    ("sk-", r"\bsk-((proj|svcacct|or-v1)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9_]{20,})", "an API key of a model provider"),
    *((f"gh{one}_", rf"\bgh{one}_[A-Za-z0-9]{{30,}}", "a GitHub token") for one in "pousr"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}", "a GitHub token"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}", "a GitLab token"),
    ("xox", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}", "a Slack token"),
    ("hooks.slack.com/services/", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}", "a Slack webhook"),
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b", "an AWS access key"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b", "an AWS access key"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}\b", "a Google API key"),
    ("_live_", r"\b[rs]k_live_[0-9A-Za-z]{20,}", "a Stripe key"),
    ("SG.", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}", "a SendGrid key"),
    ("hf_", r"\bhf_[A-Za-z0-9]{30,}", "a Hugging Face token"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}\b", "an npm token"),
    ("hvs.", r"\bhvs\.[A-Za-z0-9_-]{24,}", "a Vault token"),
    ("AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}", "an age key"),
    (":AA", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b", "a Telegram bot token"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", "a JSON Web Token"),
    ("PRIVATE KEY", r"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----", "a private key"),
    (
        "://",
        _ACCOUNT_URL,
        "a URL with a password",
    ),
)
_PATTERNS = tuple((needle, re.compile(form), what) for needle, form, what in _FORMS)
_FORMS_CEL = " || ".join(f"t.contains('{needle}') && t.matches(r'{form}')" for needle, form, _ in _FORMS)
_LONGEST_CEL = 65536
"""Bytes of a text that CEL looks at: `matches` over more costs more than an API server grants an expression."""

_WORD = re.compile(r"[A-Za-z0-9_+/-]{24,}={0,2}")
_PLAIN_BASE64 = ("MI", "LS0tLS1CRUdJTi", "c3NoL", "AAAA")
"""How certificates (DER, PEM), public keys of ssh and the like begin in base64."""
_INTEGRITY = re.compile(r"sha[0-9]{3}-")
_LONGEST_KEY = 160
_SHORTEST = 9
"""Of a text that holds a secret of any form: x://:y@zz."""
_PUBLIC = re.compile(r"PUBLIC|HASH|DIGEST|CHECKSUM|FINGERPRINT|SHA[0-9]*(?:_|$)|(?:^|_)(?:ID|UUID)$", re.IGNORECASE)
"""Names of what is random and no secret."""
_BITS = 3.9
"""Per character: text of 24 random ones has some 4.3, words joined without blanks have less."""
_CHANGES = 0.38
"""Share of neighbours of another class (lower, upper, digit): chance makes 0.6 of them, words and CamelCase 0.3."""
_LIKE_A_WORD = re.compile(r"[A-Za-z][a-z]{2,}")
_WORDS = 0.6
"""Share of the text that looks like words: chance makes 0.3 of it."""

_SECRET_NAME = re.compile(r"(?:^|_)(?:TOKEN|SECRET|(?:API|SECRET|PRIVATE)_?KEY)$", re.IGNORECASE)
_PASSWORD_NAME = re.compile(r"(?:^|_|PG)(?:PASSWORD|PASSWD|PASSPHRASE)$", re.IGNORECASE)
_HARMLESS = re.compile(r"true|false|yes|no|none|null|on|off|disabled|enabled|[0-9.]+[a-z]{0,2}|\**", re.IGNORECASE)
_KEYLIKE = re.compile(r"(?=[A-Za-z_+/=-]*[0-9])(?=[0-9_+/=-]*[A-Za-z])[A-Za-z0-9_+/=-]{16,}")

_DOCS = (
    "https://kubernetes.io/docs/concepts/configuration/secret/",
    "https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
)


@lru_cache(maxsize=512)  # the values of samples stand in every environment, 57 in the largest of ours
def secret_in(text: str) -> str:
    """What secret `text` holds, in words ("a GitHub token"); "" for none that can be told by its form."""
    if len(text) < _SHORTEST:
        return ""
    for needle, pattern, what in _PATTERNS:
        if needle in text and pattern.search(text):
            return what
    if text.startswith("LS0tLS1CRUdJTi") and "PRIVATE KEY" in _decoded(text[:60]):
        return "a private key"
    return ""


def is_random(text: str) -> bool:
    """Whether chance wrote it: one word of small and large letters and digits, well mixed.

    Digits and one case of letters say nothing: so do UUIDs and digests. Nor does base64 of what people can read.
    """
    if not 24 <= len(text) <= _LONGEST_KEY or not _WORD.fullmatch(text):
        return False
    if text.startswith(("/", *_PLAIN_BASE64)) or _INTEGRITY.match(text) or _decoded(text):
        return False
    letters = [one for one in text if one.isalnum()]
    classes = [0 if one.islower() else 1 if one.isupper() else 2 for one in letters]
    if set(classes) != {0, 1, 2} or sum(map(len, _LIKE_A_WORD.findall(text))) > _WORDS * len(text):
        return False
    changes = sum(one != other for one, other in pairwise(classes))
    bits = -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())
    return bits >= _BITS and changes >= _CHANGES * len(letters)


def _decoded(text: str) -> str:
    """The text that it is in base64; "" if it is no base64, or that of no text. Chance makes no text of 18 bytes."""
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""


@policy(
    "env-no-secret-literal",
    title="No secret stands in a variable, an argument or a ConfigMap",
    rationale=(
        "What is in a manifest is in git, in Argo CD and in every backup of etcd, for everybody who may read one of"
        " them; a key that was there once is lost and must be replaced."
    ),
    remedy="take it back at its issuer; put the new one into a Secret (ExternalSecret) and use valueFrom.secretKeyRef",
    kinds=(*PODS, "ConfigMap"),
    links=_DOCS,
    waivable=False,
    cel=Cel(
        f"variables.texts.all(some, some.all(t, size(t) > {_LONGEST_CEL} || !({_FORMS_CEL})))",
        variables={
            "texts": (
                "object.kind == 'ConfigMap' ? [object.?data.orValue({}).map(k, object.data[k])]"
                " : variables.containers.map(c, c.?env.orValue([]).map(e, e.?value.orValue(''))"
                " + c.?command.orValue([]) + c.?args.orValue([]))"
            ),
        },
        message="a secret stands in clear in a variable, an argument or a ConfigMap: use a Secret",
        partly=(
            "It knows the forms that issuers give their keys, in texts of up to 64 KiB; it cannot tell random text"
            " without a form, nor what is in base64."
        ),
    ),
)
def env_no_secret_literal(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for pointer, place, name, text in _texts(entry):
        what = secret_in(text)
        if what:
            yield Fault(pointer, f"{place} holds {what} in clear, and must not: it belongs in a Secret")
        elif is_random(text) and not _PUBLIC.search(name):
            told = f"{place} holds what looks like a random key, and must not if it is one: it belongs in a Secret"
            yield Fault(pointer, told, Severity.WARNING)


@policy(
    "env-secret-by-name",
    title="What is called a password is no literal",
    rationale="A value in the manifest is the same for everybody who reads the repository, and never changes.",
    remedy="put it into a Secret and use valueFrom.secretKeyRef",
    severity=Severity.WARNING,
    kinds=(*PODS, "ConfigMap"),
    links=_DOCS,
)
def env_secret_by_name(entry: Entry, world: World) -> Iterator[Fault]:  # noqa: ARG001  the signature of every policy
    for pointer, place, name, text in _texts(entry):
        if name and _called_secret(name, text) and not (secret_in(text) or is_random(text)):
            yield Fault(pointer, f"{place} has the name of a secret and a literal for a value; it must be in a Secret")


def _called_secret(name: str, text: str) -> bool:
    """Whether the last word of `name` and the look of the value agree: DB_PASSWORD is, PASSWORD_FILE is not."""
    if len(text) < 6 or _HARMLESS.fullmatch(text) or text[0] in "/.":
        return False
    if any(one in text for one in ("$", "{{", "<", "://", " ", "\n")):
        return False
    if _PASSWORD_NAME.search(name):
        return True
    # The value of TLS_SECRET is as a rule the name of one, so here the value must look like a key as well.
    digits = sum(one.isdigit() for one in text)
    return bool(_SECRET_NAME.search(name)) and bool(_KEYLIKE.fullmatch(text)) and digits * 4 >= len(text)


def _texts(entry: Entry) -> Iterator[tuple[str, str, str, str]]:
    """(pointer, place in words, name of the variable, text) of everything that is written out."""
    if entry.id.kind == "ConfigMap":
        for key, text in mapping(entry.manifest.get("data")).items():
            if isinstance(text, str) and isinstance(key, str):
                yield join("/data", key), f"key {key!r}", key, text
        return
    for container in entry.pod.containers if entry.pod else ():
        for place, one in enumerate(sequence(container.spec.get("env"))):
            variable = mapping(one)
            text, name = variable.get("value"), str(variable.get("name", ""))
            if isinstance(text, str):
                yield f"{container.pointer}/env/{place}/value", f"container {container.name!r} env {name!r}", name, text
        for field in ("command", "args"):
            for place, text in enumerate(sequence(container.spec.get(field))):
                if isinstance(text, str):
                    flag, _, value = text.partition("=") if text.startswith("-") else ("", "", text)
                    told = f"container {container.name!r} {field}[{place}]"
                    yield f"{container.pointer}/{field}/{place}", told, flag.lstrip("-").replace("-", "_"), value
