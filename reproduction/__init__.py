"""The paper's experiments, run again: as its code did them, corrected, and our way. See README.md."""
