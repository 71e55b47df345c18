"""Config in, manifests out: the generator."""

__version__ = "0.1.0"
