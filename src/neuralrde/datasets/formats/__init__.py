"""File formats: one file for each, and the registry of their readers."""
