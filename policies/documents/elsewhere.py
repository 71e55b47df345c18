"""What other checks find, so that all of it can be explained, waived and reported like a policy."""

from __future__ import annotations

from policies.model import Policy, Scope, Severity
from policies.registry import add

FAMILY = "documents"


def _found_elsewhere(policy_id: str, title: str, rationale: str, remedy: str, links: tuple[str, ...]) -> None:
    add(
        Policy(
            policy_id,
            title,
            Severity.ERROR,
            Scope.DOCUMENT,
            FAMILY,
            frozenset(),
            rationale,
            remedy,
            links,
            False,
            "",
            None,
            None,
        )
    )


_found_elsewhere(
    "schema-valid",
    "Every object fits the schema of its kind",
    "The API server refuses what does not fit, and drops fields it does not know. A kind without a schema would pass "
    "unseen, so that is a finding too.",
    "correct the field that the finding names; for a kind without a schema run `paperclip-gitops schemas pull`, or "
    "declare it: checks.uncheckedKinds of the config, uncheckedKinds of facts",
    ("https://kubernetes.io/docs/reference/kubernetes-api/", "https://github.com/yannh/kubeconform/issues/304"),
)
_found_elsewhere(
    "yaml-readable",
    "Every file is YAML that holds manifests",
    "What cannot be read cannot be judged: left out in silence, it would reach the cluster unchecked.",
    "mend the place that the finding names; render templates of Helm and kustomizations first",
    ("https://yaml.org/spec/1.2.2/",),
)
_found_elsewhere(
    "yaml-go-safe",
    "What is written reads back as what was meant",
    "Readers of YAML disagree: text such as no, 1e3 or 0o17 becomes something else in one of them, and numbers lose "
    "digits or have no form in JSON.",
    "quote it if it is text; if synth wrote it, this is a defect of the writer: please report the object",
    ("https://yaml.org/type/bool.html", "https://github.com/kubernetes-sigs/yaml"),
)
_found_elsewhere(
    "waiver-live",
    "A waiver is alive and covers something",
    "A waiver that expired, runs for ever, or covers nothing any more hides what nobody has decided.",
    "renew it in the waivers file with a reason, or remove it",
    ("https://github.com/kyverno/kyverno/issues/14491", "https://github.com/kyverno/kyverno/issues/17473"),
)
_found_elsewhere(
    "dist-clean",
    "The committed dist/ is what the config renders",
    "Argo CD syncs what is committed: a change of the config that was not rendered, or an edit by hand, makes the two "
    "disagree, and the next synth undoes one of them.",
    "run `paperclip-gitops synth` and commit dist/",
    ("https://argo-cd.readthedocs.io/en/stable/user-guide/best_practices/",),
)
_found_elsewhere(
    "dist-canonical",
    "A file of dist/ is written in the one canonical form",
    "A file that another tool or a hand has written shows changes that are none in every later diff, and may read "
    "differently to Go.",
    "run `paperclip-gitops synth`: it writes the file again; change the config, not dist/",
    ("https://reproducible-builds.org/docs/deterministic-build-systems/",),
)
_found_elsewhere(
    "jobtemplate-complete",
    "Every Job template fits its contract and can be filled",
    "The launcher fills the template when an agent is to run: a placeholder that nobody knows fails there, at night.",
    "correct the template or templates/contract.yaml, and run `paperclip-gitops synth`",
    ("https://jinja.palletsprojects.com/en/stable/api/#undefined-types",),
)
