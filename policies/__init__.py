"""The policy kit: what would break in the cluster is a finding here first."""
