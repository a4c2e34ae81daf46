"""Data sets: readers of files, named and simulated sets, and how to divide them."""

from ._read import Reader, column_names, endings, read, register_reader
from .arff import read_arff
from .cache import data_folder
from .catalogue import available, load
from .dataset import Dataset, concatenate
from .files import DatasetUnavailable, ReadError
from .npz import read_npz, write_npz
from .simulated import fractional_brownian_motion, order_of_events, spirals, two_tanks
from .splits import Split, by_group, duplicates, folds, given, in_order, random_split, stratified
from .targets import guess_task
from .ts import read_ts

__all__ = [
    "Dataset",
    "DatasetUnavailable",
    "ReadError",
    "Reader",
    "Split",
    "available",
    "by_group",
    "column_names",
    "concatenate",
    "data_folder",
    "duplicates",
    "endings",
    "folds",
    "fractional_brownian_motion",
    "given",
    "guess_task",
    "in_order",
    "load",
    "order_of_events",
    "random_split",
    "read",
    "read_arff",
    "read_npz",
    "read_ts",
    "register_reader",
    "spirals",
    "stratified",
    "two_tanks",
    "write_npz",
]
