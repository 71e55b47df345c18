"""Why a run cannot begin, in the words of a diagnosis: another launcher, an answer that did not come, or a refusal."""

from __future__ import annotations

from dataclasses import replace

from kubekit.identity import Manifest
from paperclip_launcher import marks
from paperclip_launcher.cluster.errors import ApiError, Forbidden, Unauthorized
from paperclip_launcher.diagnose import refusal
from paperclip_launcher.diagnosed import Diagnosis


def elsewhere(job: Manifest) -> Diagnosis:
    """Another launcher, which is alive, has the run."""
    owner = marks.annotation(job, marks.OWNER)
    return Diagnosis(
        "k8s_run_owned_elsewhere",
        hard=True,
        summary="Another launcher looks after the run",
        detail=f"Job {marks.name(job)} is owned by {owner}",
        remedy="follow it there, or wait until that launcher has ended",
    )


def blocked(detail: str, code: str = "k8s_concurrent_run_blocked") -> Diagnosis:
    """Another run of the agent stands in its way."""
    return Diagnosis(
        code,
        hard=True,
        summary="Another run of the agent is alive",
        detail=detail,
        remedy="wait for the other run, cancel it, or set concurrency to wait",
    )


def left_over(pod: Manifest) -> str:
    """The words for what stands in its way where that is a pod alone."""
    return f"pod {marks.name(pod)} of the same agent is there without its Job"


def unknown(detail: str) -> Diagnosis:
    """Nobody can say whether what was asked for has happened."""
    return Diagnosis(
        "k8s_job_state_mismatch",
        hard=True,
        summary="How the run stands is not known; its Job is kept",
        detail=detail,
        remedy="attach to the run again once the API server answers",
    )


def refused(error: ApiError) -> Diagnosis:
    """By the API server, for good."""
    if isinstance(error, Unauthorized):
        summary, remedy = "The API server does not know the launcher", "look at its token or certificate"
        return Diagnosis("k8s_forbidden", hard=True, summary=summary, detail=error.message, remedy=remedy)
    if isinstance(error, Forbidden) and "cannot create resource" in error.message:
        remedy = "bind its Role: paperclip-launcher check lists every right"
        return Diagnosis(
            "k8s_forbidden", hard=True, summary="The launcher may not create Jobs", detail=error.message, remedy=remedy
        )
    return replace(refusal(error.message), hard=True)
