"""Several processes: real ones, on this machine, over gloo."""
