"""The rendered state on disk: written as a whole or not at all, and compared with what synth would write."""
