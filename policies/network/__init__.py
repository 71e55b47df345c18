"""The network: who can reach whom, and what must never be reached."""
