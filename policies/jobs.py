"""Jobs: an agent run is started once, ends, is cleaned up, and can be found again."""
