"""Say how large a thing would be before it is allocated."""

from neuralrde.paths.memory import check_fits

__all__ = ["check_fits"]
