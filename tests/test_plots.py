"""Pictures show what they were given; that they look good is for eyes."""

import sys
from pathlib import Path

import numpy as np
import pytest

from neuralrde import LogSignatureForecaster, plots
from neuralrde.plots import (
    PlotsUnavailable,
    confusion,
    forecast,
    forecast_errors,
    learning_curves,
    predicted_against_true,
    save,
    windows_over_series,
)

HISTORY = [
    {"epoch": k, "loss": 1 / k, "validation_loss": abs(k - 3) + 0.5, "monitored": abs(k - 3) + 0.5,
     "validation_accuracy": 0.5 + k / 20}
    for k in range(1, 6)
]  # fmt: skip


def test_learning_curves_mark_the_epoch_whose_weights_are_kept():
    losses, metric = learning_curves(HISTORY).axes
    dots = [line for line in losses.lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == [3]
    assert metric.lines[0].get_ydata().tolist() == [record["validation_accuracy"] for record in HISTORY]


def test_learning_curves_without_validation():
    assert len(learning_curves([{"epoch": 1, "loss": 1.0}]).axes) == 1
    with pytest.raises(ValueError, match="no epochs"):
        learning_curves([])


def test_confusion_counts_rows_as_true_classes():
    picture = confusion(["a", "a", "b"], ["a", "b", "b"], classes=["b", "a"])
    texts = {text.get_position(): text.get_text() for text in picture.axes[0].texts}
    # Position is (column, row) = (predicted, true), in the order b, a.
    assert texts == {(0, 0): "1\n100%", (1, 0): "0\n0%", (0, 1): "1\n50%", (1, 1): "1\n50%"}
    assert picture.axes[0].get_title() == "2 of 3 right: 66.7%"


def test_confusion_shows_classes_that_only_the_data_have():
    picture = confusion(["new"], ["a"], classes=["a", "b"])
    assert [tick.get_text() for tick in picture.axes[0].get_yticklabels()] == ["a", "b", "new"]


def test_predicted_against_true_leaves_out_the_unknown():
    picture = predicted_against_true([1.0, np.nan, 3.0], [1.0, 2.0, 4.0])
    assert picture.axes[0].get_title() == f"RMSE {np.sqrt(0.5):.3g} over 2 samples"
    with pytest.raises(ValueError, match="no pair"):
        predicted_against_true([np.nan], [1.0])


def test_a_note_says_what_to_compare_with():
    note = "95 % interval 68.8% to 87.5%; always 'no' 79.7%; cheap model 79.7%"
    for picture in (confusion(["a", "b"], ["a", "a"], note=note), predicted_against_true([1.0], [1.0], note=note)):
        assert picture.get_supxlabel().replace("\n", " ") == note
        assert max(map(len, picture.get_supxlabel().splitlines())) <= 15 * picture.get_figwidth()
    assert confusion(["a", "b"], ["a", "a"]).get_supxlabel() == ""


def test_windows_are_drawn_where_the_series_is_cut():
    path = np.random.default_rng(0).normal(size=(50, 2)).cumsum(axis=0)
    above, below, _ = windows_over_series(path, step=20).axes
    lines = sorted(line.get_xdata()[0] for line in above.lines if len(line.get_xdata()) == 2)
    assert lines == [0, 20, 40, 49]
    assert [tick.get_text() for tick in below.get_yticklabels()] == ["x0", "x1", "[x0, x1]"]


def test_windows_show_every_scale_that_the_model_sees_and_no_rows_of_zeros():
    """With the default step of 1 and scales 1, 4, 16 and 64, two thirds of the picture were blank."""
    path = np.random.default_rng(0).normal(size=(100, 3)).cumsum(axis=0)
    _, *below, _ = windows_over_series(path, step=1, depth=(3, 2, 2), scales=(1, 4, 16)).axes
    rows = [[tick.get_text() for tick in axis.get_yticklabels()] for axis in below]
    areas = ["[x0, x1]", "[x0, x2]", "[x1, x2]"]
    assert rows == [["x0", "x1", "x2"], ["x0", "x1", "x2", *areas], ["x0", "x1", "x2", *areas]]
    assert "the other 11 rows are zero" in below[0].get_title()
    assert "of the last 16 windows" in below[2].get_title()
    for axis, scale in zip(below, (1, 4, 16), strict=True):
        drawn = axis.collections[0].get_array().reshape(-1, 99)
        assert (np.abs(drawn).max(axis=1) > 0.5).all()
        increment = path[1:, 0] - path[np.maximum(np.arange(1, 100) - scale, 0), 0]
        np.testing.assert_allclose(drawn[0], increment / np.sqrt((increment**2).mean()), rtol=1e-6)


def test_windows_are_drawn_over_dates():
    dates = np.datetime64("2024-02-28") + np.arange(50).astype("timedelta64[h]")
    picture = windows_over_series(np.random.default_rng(0).normal(size=(50, 2)), step=10, times=dates)
    picture.canvas.draw()
    axis = picture.axes[1].xaxis
    assert any("Feb" in tick.get_text() or "Mar" in tick.get_text() for tick in axis.get_ticklabels())
    numbers = windows_over_series(np.random.default_rng(0).normal(size=(50, 2)), step=10, times=np.arange(50) / 4)
    assert numbers.axes[0].get_xlim() == (0, 12.25)


def test_windows_of_many_channels():
    picture = windows_over_series(np.random.default_rng(0).normal(size=(50, 400)), step=10)
    assert "8 channels are drawn" in picture.axes[0].get_title()


def test_windows_say_how_many_rows_are_left_out():
    path = np.random.default_rng(0).normal(size=(50, 6)).cumsum(axis=0)
    assert "28 of 91 rows" in windows_over_series(path, step=10, depth=3).axes[1].get_title()


def test_windows_need_step_or_cuts():
    with pytest.raises(ValueError, match="either step or cuts"):
        windows_over_series(np.zeros((5, 1)))


def test_save_makes_the_folder(tmp_path):
    file = save(predicted_against_true([1.0, 2.0], [1.0, 2.0]), tmp_path / "a" / "b.png")
    assert file.read_bytes()[:4] == b"\x89PNG"


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotsUnavailable, match=r"neuralrde\[plot\]"):
        predicted_against_true([1.0], [1.0])


def test_matplotlib_is_imported_only_to_draw():
    lines = Path(plots.__file__).read_text("utf-8").splitlines()
    assert not any(line.startswith(("import matplotlib", "from matplotlib")) for line in lines)


def test_names_are_not_formulas(tmp_path):
    picture = windows_over_series(np.zeros((30, 2)), step=10, channels=["cost_$", "fee_$"])
    assert save(picture, tmp_path / "x.png").exists()


@pytest.fixture(scope="module")
def forecaster():
    waves = np.sin(np.arange(200) / 5 + np.arange(12)[:, None])[..., None].repeat(2, axis=-1)
    return LogSignatureForecaster(horizon=10, examples=200).fit(waves), waves


def test_forecasts_are_drawn_beside_past_and_truth(forecaster):
    model, waves = forecaster
    above, _ = forecast(model, waves, sample=3, now=100.0).axes
    past, came, fan = above.lines[:3]
    assert past.get_xdata().tolist() == list(range(70, 101))
    assert came.get_xdata().tolist() == list(range(101, 111))
    np.testing.assert_array_equal(came.get_ydata(), waves[3, 101:111, 0])
    expected = model.predict(waves[3:4], np.arange(101.0, 111.0), now=100.0)
    np.testing.assert_array_equal(fan.get_ydata(), expected[0, :, 0])
    assert len(forecast(model, waves, channels=["x1"]).axes) == 1


def test_errors_are_drawn_by_the_time_ahead(forecaster):
    model, waves = forecaster
    found = model.evaluate(waves, cuts=[100.0])
    errors, coverage = forecast_errors(found).axes
    assert errors.patches[0].get_data().values.tolist() == [part["mse"] for part in found["ahead"]]
    assert errors.patches[0].get_data().edges.tolist() == [0, 2.5, 5, 7.5, 10]
    assert coverage.patches[0].get_data().values.tolist() == [part["coverage"] for part in found["ahead"]]
