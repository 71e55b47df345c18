"""What changed between two rendered states, object by object, and how dangerous each change is."""
