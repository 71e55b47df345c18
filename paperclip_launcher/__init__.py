"""Runs every agent run as a Kubernetes Job. This package never imports cdk8s or jsii: it starts in a pod without Node."""
