"""Admission: what the API server would say to a pod, by the quotas and limits of its namespace."""

from policies.admission import rules as rules
