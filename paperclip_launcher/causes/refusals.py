"""Why an object was not created: in FailedCreate events of a Job, and in answers to our own calls."""

from __future__ import annotations

from paperclip_launcher.causes.cause import Cause

_NAMESPACE_RULES = "change the Job, or let whoever runs the namespace change the rule"
_RESOURCES = "change `resources` in the config to fit, or the LimitRange of the namespace"

REFUSALS = (
    Cause(
        r"failed quota: (?P<quota>[^:\s]+): must specify (?P<what>[^;]+)",
        "k8s_limit_range_refused",
        True,
        "The quota {quota} wants {what} to be set",
        "set it in `resources`, or give the namespace a LimitRange with defaults",
    ),
    Cause(
        r"exceeded quota: (?P<quota>[^,\s]+), requested: (?P<what>.+?)(?:, used:|$)",
        "k8s_quota_exceeded",
        False,
        "The quota {quota} has no room for {what}",
        "wait until other runs end, ask for less, or raise the quota",
    ),
    Cause(
        r"status unknown for quota: (?P<quota>[^,\s]+)",
        "k8s_quota_exceeded",
        False,
        "The quota {quota} has not been counted yet",
        "wait; where it stays so, look at the controller manager",
    ),
    Cause(
        r"(?P<what>(?:minimum|maximum) \S+ usage per \S+|\S+ max limit to request ratio per \S+)",
        "k8s_limit_range_refused",
        True,
        "A LimitRange forbids the pod by its {what}",
        _RESOURCES,
    ),
    Cause(
        r'violates PodSecurity "(?P<level>[^"]+)"',
        "k8s_pod_security_refused",
        True,
        "The namespace takes only pods of the level {level}",
        "keep to the security settings of the Job template, or use a namespace of another level",
    ),
    Cause(
        r'failed calling webhook "(?P<name>[^"]+)"',
        "k8s_pod_schedule_failed",
        False,
        "The admission webhook {name} does not answer",
        "look whether the webhook's pods run",
    ),
    Cause(
        r"admission webhook \"(?P<name>[^\"]+)\" denied the request",
        "k8s_admission_refused",
        True,
        "The admission webhook {name} forbids it",
        _NAMESPACE_RULES,
    ),
    Cause(
        r"policy ['\"](?P<name>[^'\"]+)['\"](?: with binding '[^']+')? denied request",
        "k8s_admission_refused",
        True,
        "The admission policy {name} forbids it",
        _NAMESPACE_RULES,
    ),
    Cause(
        r'serviceaccount "(?P<name>[^"]+)" not found',
        "k8s_admission_refused",
        False,
        "The service account {name} does not exist",
        "create it in the namespace of the agents; the rendered manifests hold one",
    ),
    Cause(
        r"no PriorityClass with name (?P<name>\S+) was found",
        "k8s_admission_refused",
        True,
        "The priority class {name} does not exist",
        "correct `priorityClassName`, or create the class",
    ),
    Cause(
        r'RuntimeClass "(?P<name>[^"]+)" not found',
        "k8s_admission_refused",
        True,
        "The runtime class {name} does not exist",
        "correct the runtime class of the environment, or create it",
    ),
    Cause(
        r"because it is being terminated",
        "k8s_admission_refused",
        True,
        "The namespace is being deleted",
        "use another namespace, or create it again",
    ),
    Cause(
        r'namespaces? "(?P<name>[^"]+)" not found',
        "k8s_job_create_failed",
        True,
        "The namespace {name} does not exist",
        "apply the rendered manifests of the environment, or correct `namespace`",
    ),
    Cause(
        r'cannot (?P<verb>\w+) resource "(?P<what>[^"]+)"',
        "k8s_forbidden",
        True,
        "The launcher lacks the right to {verb} {what}",
        "apply the launcher's Role again",
    ),
    Cause(
        r"\bis invalid: (?P<what>[^:]+)",
        "k8s_job_create_failed",
        True,
        "The API server finds {what} wrong",
        "correct the config; a LimitRange may also have put in values that do not fit together",
    ),
    Cause(
        r"\bis forbidden\b|\bdenied\b",
        "k8s_admission_refused",
        True,
        "The API server forbids it",
        _NAMESPACE_RULES,
    ),
)
