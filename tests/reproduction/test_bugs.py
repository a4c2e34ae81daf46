"""Each bug of the paper's code differs from what is right, in its own way."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.models import fold
from neuralrde.solvers import RK4, RK4ThreeEighths
from neuralrde.training import AdamW, Examples, Frozen, Plateau, Settings, weights_of
from reproduction.experiment import Experiment
from reproduction.inputs import folded_inputs, paper_inputs, prepared
from reproduction.paper_bugs import Bug, mean_over_batches
from reproduction.paper_models import PaperODERNN, paper_neural_rde, three_eighths_step
from reproduction.paper_settings import BUGS, paper_settings
from reproduction.paper_training import REGRESSION, fit_as_in_the_paper
from reproduction.splits import divide


@pytest.fixture(scope="module")
def split(small):
    return divide(small, "paper", 0)


def windows_of(data, split, bugs, step=13):
    return paper_inputs(data, split, prepared(data, split), depth=2, step=step, bugs=frozenset(bugs)).train.inputs[1]


def test_paper_and_its_variants_have_all_bugs_and_corrected_none():
    assert BUGS["paper"] == BUGS["adjoint"] == BUGS["later"] == set(Bug)
    assert not BUGS["corrected"]


def test_tail_dropped(small, split):
    # 64 increments at step 13: four whole windows and a tail of 12.
    right, wrong = windows_of(small, split, []), windows_of(small, split, [Bug.TAIL_DROPPED])
    assert right.shape[1] == 5
    np.testing.assert_array_equal(wrong, right[:, :4])


def test_a_series_that_fills_its_windows_has_no_tail_to_drop(small, split):
    both = [windows_of(small, split, bugs, step=16) for bugs in ([], [Bug.TAIL_DROPPED])]
    np.testing.assert_array_equal(*both)


@pytest.mark.long
def test_last_window_twice(small, split):
    right, wrong = windows_of(small, split, []), windows_of(small, split, [Bug.LAST_WINDOW_TWICE])
    np.testing.assert_array_equal(wrong[:, :-1], right)
    np.testing.assert_array_equal(wrong[:, -1], right[:, -1])
    model = paper_neural_rde(2, 1, depth=2, state=4, width=8, layers=2, shared=False, key=jax.random.key(0))
    x0 = np.zeros(2, np.float32)
    assert abs(float((model(x0, wrong[0]) - model(x0, right[0]))[0])) > 1e-4  # rounding would be 1e-7


def test_zero_block(small, split):
    series = prepared(small, split)
    wrong = folded_inputs(small, split, series, step=13, bugs=frozenset([Bug.ZERO_BLOCK])).train.inputs[0]
    right = folded_inputs(small, split, series, step=13).train.inputs[0]
    assert wrong.shape[1] == right.shape[1] + 1 == 6  # 65 points are 5 whole blocks
    assert not wrong[:, -1].any()
    np.testing.assert_array_equal(right, fold(series.values.astype(np.float32), 13)[split.train])


@pytest.mark.parametrize(("layers", "fewer"), [(2, 0), (3, 8 * 8 + 8), (4, 2 * (8 * 8 + 8))])
def test_shared_hidden_layers(layers, fewer):
    def weights(shared):
        key = jax.random.key(0)
        model = paper_neural_rde(3, 1, depth=2, state=4, width=8, layers=layers, shared=shared, key=key)
        return sum(leaf.size for leaf in jax.tree.leaves(weights_of(model)))

    assert weights(False) - weights(True) == fewer


def test_mean_over_batches_is_not_the_rmse():
    true = np.array([0.0, 0.0, 3.0])
    assert mean_over_batches(np.zeros(3), true, batch=2) == 1.0  # batches of 2 and 1, by their sizes
    assert mean_over_batches(np.zeros((3, 1)), true[:, None], batch=2) == 1.0
    assert mean_over_batches(np.zeros(3), true, batch=3) == pytest.approx(np.sqrt(3))


def trained(bugs, epochs=2):
    """Eight examples of which the first two batches differ, so that their order matters."""
    rng = np.random.default_rng(0)
    blocks, target = rng.normal(size=(8, 3, 2)).astype(np.float32), np.arange(8, dtype=np.float32)[:, None]
    examples = Examples((blocks,), target)
    settings = Settings(
        epochs=epochs,
        batch_size=4,
        optimizer=AdamW(learning_rate=0.01, schedule=Plateau(), clip=None, weight_decay=0.0),
    )
    model = PaperODERNN(2, 1, state=4, key=jax.random.key(0))
    state = fit_as_in_the_paper(model, examples, examples, task=REGRESSION, settings=settings, bugs=frozenset(bugs))
    return state, model


def test_no_shuffling():
    shuffled, ordered = (trained(bugs)[0].history[-1]["loss"] for bugs in ([], [Bug.NO_SHUFFLING]))
    assert abs(shuffled - ordered) > 1e-4


def test_the_last_layer_learns_ten_times_faster():
    state, model = trained([Bug.NO_SHUFFLING], epochs=1)
    moved = jax.tree.map(lambda new, old: float(abs(new - old).max()), state.model, model)
    # Adam's first steps are of the size of the rate, 0.01, two of them an epoch.
    assert 0.1 < moved.decoder.bias <= 0.21
    assert moved.outer.bias <= 0.021


def test_training_loss_is_the_root_of_the_batch_mean():
    state, model = trained([Bug.NO_SHUFFLING], epochs=1)
    rng = np.random.default_rng(0)
    first = jax.vmap(model)(rng.normal(size=(8, 3, 2)).astype(np.float32))[:4, 0]
    before = float(np.sqrt(np.mean((np.asarray(first) - np.arange(4)) ** 2)))
    # The epoch's loss is the mean of two batches, 0 to 3 and 4 to 7: the roots of about 3.5 and 30.
    assert before < state.history[0]["loss"] < 5.7


@pytest.mark.long
def test_the_ode_rnns_step_is_the_3_8_rule():
    field, start = lambda h: jnp.sin(3 * h) + h[::-1], jnp.array([0.5, -1.0])
    by = lambda solver: diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, h, args: field(h)), solver, 0.0, 1.0, None, start,
        stepsize_controller=diffrax.StepTo(ts=[0.0, 1.0]),
    ).ys[0]  # fmt: skip
    np.testing.assert_allclose(three_eighths_step(field, start), by(RK4ThreeEighths()), rtol=1e-6)  # float32
    assert np.abs(by(RK4()) - by(RK4ThreeEighths())).max() > 1e-3  # the classic rule, of the same order, is another


def test_published_settings():
    settings = paper_settings(Experiment(dataset="RR", model="nrde", depth=3, step=128, seed=111))
    assert (settings.state, settings.layers, settings.width) == (64, 3, 192)
    assert settings.training.optimizer.learning_rate == pytest.approx(0.01 * 32 / 512)
    assert (settings.training.patience, settings.training.epochs) == (60, 1000)
    assert paper_settings(Experiment(dataset="RR", model="odernn", depth=1, step=512, seed=111)).state == 192


# Hidden dimension, layers, multiplier and number of weights, as printed in the appendix: (BIDMC, EigenWorms).
PRINTED = {
    (16, 2, 1): (2209, 4453),
    (16, 2, 2): (3265, 5509),
    (16, 2, 3): (3265, 5509),
    (16, 3, 1): (3249, 6517),
    (16, 3, 2): (5601, 8869),
    (16, 3, 3): (5601, 8869),
    (16, 4, 1): (4289, 8581),
    (16, 4, 2): (8449, 12741),
    (16, 4, 3): (8449, 12741),
    (32, 2, 1): (8513, 17093),
    (32, 2, 2): (12673, 21253),
    (32, 2, 3): (12673, 21253),
    (32, 3, 1): (12641, 25317),
    (32, 3, 2): (21953, 34629),
    (32, 3, 3): (21953, 34629),
    (32, 4, 1): (16769, 33541),
    (32, 4, 2): (33281, 50053),
    (32, 4, 3): (33281, 50053),
    (64, 2, 1): (33409, 66949),
    (64, 2, 2): (49921, 83461),
    (64, 2, 3): (49921, 83461),
    (64, 3, 1): (49857, 99781),
    (64, 3, 2): (86913, 136837),
    (64, 3, 3): (86913, 136837),
    (64, 4, 1): (66305, 132613),
    (64, 4, 2): (132097, 198405),
    (64, 4, 3): (132097, 198405),
}


def count_weights(dataset, sizes, channels, outputs, protocol):
    settings = paper_settings(
        Experiment(dataset=dataset, model="ncde", depth=1, step=8, seed=111, protocol=protocol, sizes=sizes)
    )
    model = eqx.filter_eval_shape(
        paper_neural_rde,
        channels,
        outputs,
        depth=1,
        state=settings.state,
        width=settings.width,
        layers=settings.layers,
        shared=Bug.SHARED_HIDDEN_LAYERS in settings.bugs,
        key=jax.random.key(0),
    )
    leaves = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, Frozen))  # statistics are no weights
    return sum(leaf.size for leaf in leaves if not isinstance(leaf, Frozen) and hasattr(leaf, "dtype"))


@pytest.mark.parametrize("sizes", PRINTED, ids=str)
def test_the_number_of_weights_is_the_printed_one(sizes):
    bidmc = count_weights("HR", sizes, channels=3, outputs=1, protocol="paper")
    worms = count_weights("EigenWorms", sizes, channels=7, outputs=5, protocol="paper")
    assert (bidmc, worms) == PRINTED[sizes]


def test_without_the_bugs_the_number_of_weights_is_another():
    assert count_weights("HR", (16, 3, 1), channels=3, outputs=1, protocol="corrected") != PRINTED[16, 3, 1][0]
