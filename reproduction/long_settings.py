"""LogSig-SSM's settings as published, one line per data set, and what their program does beside the model.

Repository felix-oury/LogSigSSM at d52c117: experiment_configs/repeats/sig_mamba, torch_experiments/train.py,
running_mamba/mamba_classification.py.
"""

from dataclasses import asdict, dataclass
from typing import Any

from neuralrde import Windows


@dataclass(frozen=True, kw_only=True)
class LongSettings:
    """How LogSig-SSM is trained on a data set.

    Args:
        rate: of Adam, constant.
        width, state, blocks, conv, expand: of the model.
        step: points between two tokens.
        lengths: points that each log-signature sees, the first included: one more than increments.
        depth: of each.
        whole: the depth of the log-signature of all that has been seen; None for none.
        standardise: whether tokens have mean 0 and deviation 1 over the training set.
        batch: series in a batch.
        every: steps between two looks at the validation set.
        patience: looks without a better one, or one as good, after which training ends.
        most: steps after which it ends.
    """

    rate: float = 1e-3
    width: int = 64
    state: int = 64
    blocks: int = 2
    conv: int = 2
    expand: int = 1
    step: int
    lengths: tuple[int, ...]
    depth: tuple[int, ...]
    whole: int | None = None
    standardise: bool = True
    dropout: float = 0.3
    batch: int = 32
    every: int = 1000
    patience: int = 10
    most: int = 100_000

    @property
    def windows(self) -> Windows:
        """In increments: a window of 281 points has 280 of them."""
        return Windows(step=self.step, lengths=tuple(n - 1 for n in self.lengths), depth=self.depth, whole=self.whole)

    def as_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


# Series after duplicates are left out, as their programs count them; another number is another file.
SERIES = {
    "EigenWorms": 236,
    "SelfRegulationSCP1": 561,
    "SelfRegulationSCP2": 380,
    "EthanolConcentration": 524,
    "Heartbeat": 409,
    "MotorImagery": 378,
}
# data set, rate, width, state, blocks, conv, expand, step, lengths, depths, depth of the whole past, standardised
_TABLE = """
EigenWorms           1e-3  64  64 2 2 1 21 281    2   - yes
SelfRegulationSCP1   1e-3 128  64 2 3 2  5 56     2   1 yes
SelfRegulationSCP2   1e-4 128  16 2 2 3 46 36     2   - yes
EthanolConcentration 1e-3  16 256 6 2 2 66 18,132 2,2 - yes
Heartbeat            1e-3 128  64 2 4 1 26 143    2   - yes
MotorImagery         1e-4  16  16 2 3 1 50 51,16  2,2 - no
"""


def _settings() -> dict[str, LongSettings]:
    found, numbers = {}, lambda text: tuple(int(one) for one in text.split(","))
    for line in _TABLE.split("\n")[1:-1]:
        name, rate, width, state, blocks, conv, expand, step, lengths, depths, whole, standardise = line.split()
        found[name] = LongSettings(
            rate=float(rate),
            width=int(width),
            state=int(state),
            blocks=int(blocks),
            conv=int(conv),
            expand=int(expand),
            step=int(step),
            lengths=numbers(lengths),
            depth=numbers(depths),
            whole=None if whole == "-" else int(whole),
            standardise=standardise == "yes",
        )
    return found


SETTINGS = _settings()


def rule(length: int) -> LongSettings:
    """Their rule for series of a new data set: tokens a hundredth of it apart, which see a 25th and a hundredth.

    >>> rule(17984).step, rule(17984).lengths, rule(17984).depth
    (180, (721, 181), (2, 1))
    """
    step = max(1, round(length / 100))
    return LongSettings(step=step, lengths=(4 * step + 1, step + 1), depth=(2, 1))
