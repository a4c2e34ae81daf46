"""Experiments: the paper's tables run again, bug for bug, corrected, and our way; results, floors, published values."""

from .bugs import UNTOLD, Bug
from .cells import DATASETS, GRID, MODELS, PROTOCOLS, SPLITS, Cell
from .commands import commands
from .floors import floors, spectral_peak
from .published import LATER, best_published, published
from .recipes import RECIPES, Recipe, recipe_for, recipe_of
from .results import append, is_finished, read_results
from .runs import Limits, run, settings_of, train
from .splits import divide
from .tables import Summary, grid_of, summaries

__all__ = [
    "DATASETS",
    "GRID",
    "LATER",
    "MODELS",
    "PROTOCOLS",
    "RECIPES",
    "SPLITS",
    "UNTOLD",
    "Bug",
    "Cell",
    "Limits",
    "Recipe",
    "Summary",
    "append",
    "best_published",
    "commands",
    "divide",
    "floors",
    "grid_of",
    "is_finished",
    "published",
    "read_results",
    "recipe_for",
    "recipe_of",
    "run",
    "settings_of",
    "spectral_peak",
    "summaries",
    "train",
]
