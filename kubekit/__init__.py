"""The Kubernetes vocabulary that every other package shares: names, labels, quantities, YAML. No policy, no I/O."""
