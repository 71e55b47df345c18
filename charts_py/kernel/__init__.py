"""cdk8s from Python: the only package that touches jsii."""
