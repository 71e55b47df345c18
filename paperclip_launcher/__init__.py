"""Will run every agent run as a Kubernetes Job. Never imports cdk8s or jsii: it starts in a pod without Node."""
