"""Config in, manifests out: the generator."""
