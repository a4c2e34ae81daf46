"""The experiments' data sets by name: those of the library, and two that nobody can download as they are.

A sample of worms and spoken words were converted from their sources, as `load_eigenworms_source44` and
`load_speech_commands` say; their files lie in the library's data folder.
"""

import numpy as np

from neuralrde import Series, datasets
from neuralrde.datasets import Dataset, DatasetUnavailable, ReadError, data_folder

WORMS = "eigenworms_source44/eigenworms_17984.npz"
WORDS = "speech_commands_v2_test/sc10_100perclass_16k_int16.npz"


def load_eigenworms_source44() -> Dataset:
    """43 worms of five strains, six eigenworm amplitudes over 17984 video frames.

    A sample of the data base from which the UEA archive drew its EigenWorms (Brown et al. 2013, PNAS
    110:791), with the same strains, channels and length, but not that set: results on one are not comparable
    with results on the other.
    """
    arrays = _arrays(
        WORMS,
        {"X": (43, 17984, 6), "y": (43,), "strains": (5,)},
        "the repository aexbrown/Motif_Analysis at b255f1b, sample_data",
    )
    return Dataset(
        Series(arrays["X"], channels=[f"eigenworm {i}" for i in range(1, 7)]),
        arrays["y"],
        classes=[str(strain) for strain in arrays["strains"]],
        name="eigenworms_source44",
        source="Medical Research Council 2013, repository aexbrown/Motif_Analysis, MIT; not UEA's EigenWorms",
    )


def load_speech_commands() -> Dataset:
    """1000 recordings of ten words, 16000 samples in a second, in [-1, 1); grouped by speaker.

    100 of each word, from the test files of Speech Commands v0.02 (Warden 2018, arXiv 1804.03209).
    """
    arrays = _arrays(
        WORDS,
        {"X": (1000, 16000), "y": (1000,), "words": (10,), "speaker": (1000,)},
        "the test files of Speech Commands v0.02, X in int16",
    )
    values = arrays["X"].astype(np.float32)[..., None] / 2**15
    return Dataset(
        Series.from_array(values, times=np.arange(values.shape[1]) / 16000, channels=["sound"]),
        arrays["y"],
        classes=[str(word) for word in arrays["words"]],
        groups=arrays["speaker"],
        name="SpeechCommands10",
        source="Google, Speech Commands v0.02 test files, CC BY 4.0",
    )


OWN = {"eigenworms_source44": load_eigenworms_source44, "SpeechCommands10": load_speech_commands}


def load(name: str) -> Dataset:
    """One of the two, or a data set of the library."""
    return OWN[name]() if name in OWN else datasets.load(name)


def _arrays(file: str, shapes: dict[str, tuple[int, ...]], source: str) -> dict[str, np.ndarray]:
    path = data_folder() / file
    if not path.exists():
        content = ", ".join(f"{key} {shape}" for key, shape in shapes.items())
        raise DatasetUnavailable(
            f"Got no {path}; expected it, because this set cannot be downloaded as it is. "
            f"Put there an .npz file with {content}, made from {source}."
        )
    with np.load(path) as archive:
        absent = [key for key in shapes if key not in archive]
        if absent:
            raise ReadError(path, f"Got the arrays {archive.files[:12]}; expected also {', '.join(absent)}.")
        arrays = {key: archive[key] for key in shapes}
    for key, shape in shapes.items():
        if arrays[key].shape != shape:
            raise ReadError(path, f"Got {key} of shape {arrays[key].shape}; expected {shape}.")
    return arrays
