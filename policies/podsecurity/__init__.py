"""Pod security: the Pod Security Standards as the API server applies them, and what goes beyond them."""
