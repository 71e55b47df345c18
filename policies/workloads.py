"""Workloads: what restarts, deadlocks or starves a pod."""
