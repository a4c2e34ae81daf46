"""Short names, and classes with options: to plain values and back, and what is said of wrong ones."""

import json
import re
from dataclasses import dataclass, replace

import diffrax
import equinox as eqx
import jax
import numpy as np
import pytest

from neuralrde.errors import ParameterError
from neuralrde.fields import BoundedField
from neuralrde.models import MODELS, LogNCDE, MeanState, NeuralRDE
from neuralrde.paths import Windows
from neuralrde.registry import Config, Registry, make, params_of, to_plain
from neuralrde.solvers import RK4, Nested
from neuralrde.training import AdamW, CrossEntropy, Histogram, Huber, Plateau, Quantiles, TimeStretch, WarmupCosine
from neuralrde.transforms import Compose, FillForward, Scale, Spectrogram, Standard, TimeChannel, Transform

ENTRIES = [(family, name) for family, registry in Registry.families.items() for name in registry]


@dataclass(frozen=True)
class Double(Transform):
    """A transform of one's own."""

    factor: float = 2.0

    def __call__(self, series):
        return replace(series, values=series.values * self.factor)


class OwnModel(NeuralRDE):
    """A model of one's own."""


@pytest.fixture(autouse=True)
def own_families(monkeypatch):
    """Families that a test makes are forgotten after it."""
    monkeypatch.setattr(Registry, "families", dict(Registry.families))


@pytest.mark.parametrize(("family", "name"), ENTRIES)
def test_names_and_classes_find_each_other(family, name):
    registry = Registry.families[family]
    assert registry.name_of(registry.find(name)) == name


@pytest.mark.parametrize(
    ("family", "part"),
    [
        ("transform", Standard(fill="linear", base_point=True)),
        ("transform", Compose(FillForward(), Scale(), TimeChannel(duration=2.0))),
        ("transform", Spectrogram(8, 4, bands=(0.1, 0.3, 0.5))),
        ("transform", Compose(Scale(), Double(3.0))),
        ("windows", Windows(step=16, depth=3, shifts=4)),
        ("windows", Windows(every=0.5)),
        ("loss", CrossEntropy(smoothing=0.1)),
        ("loss", Huber(spread=2.0)),
        ("loss", Histogram(bins=20, ratios=True)),
        ("loss", Quantiles()),
        ("optimizer", AdamW(learning_rate=1e-3, clip=None, schedule=Plateau(patience=3))),
        ("augmentation", TimeStretch(0.5, 2.0, rate=True, versions=3, speeds=(0.8, 1.0, 1.25))),
        ("schedule", WarmupCosine(warmup=0.2)),
        ("readout", MeanState()),
        ("gradient", Nested()),
        ("model", Config(NeuralRDE, state=64, readout="final", solver="heun")),
        ("model", Config(OwnModel, state=6)),
        ("activation", jax.nn.silu),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)
def test_parts_go_through_json(family, part):
    again = make(family, json.loads(json.dumps(to_plain(family, part))))
    assert again == part or eqx.tree_equal(again, part) is True
    assert type(again) is type(part)


def test_a_model_whose_options_are_objects_goes_through_json():
    field = Config(BoundedField, width=7)
    config = Config(NeuralRDE, state=6, field=field, readout=MeanState(), solver=diffrax.Heun(), activation=jax.nn.silu)
    plain = json.loads(json.dumps(to_plain("model", config)))
    assert plain["name"] == "neural-rde"
    assert (plain["field"]["name"], plain["readout"]["name"], plain["activation"]) == ("bounded", "mean", "silu")
    shape = {"channels": 3, "outputs": 2, "depth": 2, "key": jax.random.key(0)}
    assert eqx.tree_equal(make("model", plain)(**shape), config(**shape))


def test_a_family_that_there_is_not():
    with pytest.raises(ParameterError, match="family='modell'; expected one of"):
        make("modell", "log-ncde")


def test_a_name_alone_is_enough():
    assert make("transform", "scale") == Scale()
    assert make("transform", ["fill-forward", {"name": "time", "duration": 2.0}]) == Compose(
        FillForward(), TimeChannel(duration=2.0)
    )
    assert make("solver", "rk4") == RK4()
    assert make("model", "log-ncde") == make("model", LogNCDE) == Config(LogNCDE)


def test_what_is_given_wins_over_what_is_available():
    config = Config(NeuralRDE, state=6, depth=1)
    model = config(channels=3, outputs=2, depth=2, step=99, key=jax.random.key(0))
    assert (model.depth, model.field.state) == (1, 6)
    assert Config(config, state=8) == config.with_options(state=8) == Config(NeuralRDE, state=8, depth=1)
    assert config != Config(LogNCDE, state=6, depth=1)


def test_parameters_are_read_and_changed_without_changing_the_part():
    optimizer = AdamW()
    assert params_of(optimizer)["learning_rate"] == 3e-3
    changed = make("optimizer", optimizer, learning_rate=1.0, schedule="plateau")
    assert (changed.learning_rate, changed.schedule, optimizer.learning_rate) == (1.0, Plateau(), 3e-3)
    assert params_of(Config(NeuralRDE, state=6))["state"] == 6
    assert params_of(Config(NeuralRDE, state=6))["width"] == 64  # the class's default
    assert make("model", "neural-rde", state=6) == Config(NeuralRDE, state=6)
    assert make("transform", "standard", fill="linear") == Standard(fill="linear")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: MODELS.find("neural-rd"), "model='neural-rd'; expected one of .*Did you mean 'neural-rde'"),
        (lambda: MODELS.find("hospital.Model"), "must be imported first"),
        (lambda: Config(NeuralRDE, stat=3), "stat= for NeuralRDE; expected one of .*Did you mean 'state'"),
        (lambda: make("optimizer", AdamW(), learning_rte=1.0), "'learning_rte'.*Did you mean 'learning_rate'"),
        (lambda: make("model", NeuralRDE, statee=1), "statee.*Did you mean 'state'"),
        (lambda: make("model", 3), "model=3; expected one of .*Config"),
        (lambda: make("transform", {"name": "scale", "median": 1.0}), "median= for Scale"),
    ],
)
def test_wrong_names_give_hints(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


def test_a_class_of_ones_own_is_named_by_its_module_or_by_a_name_it_was_given():
    assert to_plain("transform", Double()) == {"name": f"{__name__}.Double", "factor": 2.0}
    assert MODELS.find(f"{__name__}.OwnModel") is OwnModel
    shapes = Registry("shape", Transform, {"scale": Scale})
    shapes["double"] = Double
    assert make("shape", to_plain("shape", Double(4.0))) == Double(4.0)
    assert to_plain("shape", Double())["name"] == "double"


def test_what_a_file_cannot_name_is_refused():
    class Local(NeuralRDE):
        pass

    with pytest.raises(TypeError, match=r"Local.*which a file cannot name.*at the top of a module"):
        to_plain("model", Config(Local))
    with pytest.raises(TypeError, match="which a file cannot name"):
        to_plain("transform", np.zeros(3))
    with pytest.raises(TypeError, match=r"as 'state'; expected numbers"):
        to_plain("model", Config(NeuralRDE, state=object()))
