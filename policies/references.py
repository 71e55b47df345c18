"""References: what a pod names must be there, with the key that it asks for."""
