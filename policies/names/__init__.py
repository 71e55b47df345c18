"""Names, labels and namespaces: what the API server, DNS, selectors and the launcher rely on."""

from policies.names import labelling, namespaces, naming, runs, selecting

__all__ = ["labelling", "namespaces", "naming", "runs", "selecting"]
