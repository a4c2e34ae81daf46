"""Where classes are rare: AUROC and its kin, in measures and in the verdict; and the calibration picture."""

import numpy as np
import pytest

from neuralrde.plots import calibration
from neuralrde.tools.assessment import Predictions, TrainingTargets, assess, measures, trivial, verdict


def test_a_rare_class_is_measured_by_what_tells_of_it():
    rng = np.random.default_rng(0)
    true = np.where(rng.random(400) < 0.1, "ill", "well")
    sure = np.clip(rng.normal(0.1 + 0.25 * (true == "ill"), 0.1), 0, 1)
    probability = np.stack([sure, 1 - sure], axis=1)
    found = Predictions(true, np.full(400, "well"), np.arange(400), probability=probability, classes=("ill", "well"))
    values = measures(found)
    ill = sure[true == "ill"][:, None]  # the share of pairs in the right order
    assert values["auroc"] == pytest.approx(np.mean(ill > sure[true == "well"]))
    assert values["sensitivity"] == 0.0
    always = trivial(TrainingTargets(counts={"ill": 40, "well": 360}), 400)
    sentences = verdict(assess(found, [always]))
    assert any("AUROC" in one for one in sentences)
    assert any("--set threshold=f1" in one for one in sentences)
    even = Predictions(
        np.where(np.arange(400) % 2, "ill", "well"),
        true,
        np.arange(400),
        probability=probability,
        classes=("ill", "well"),
    )
    assert "auroc" not in measures(even)


def test_the_calibration_picture_shows_shares_against_probabilities():
    rng = np.random.default_rng(0)
    sure = rng.random(2000)
    above, _ = calibration(rng.random(2000) < sure**2, sure, name="ill").axes
    said, share = above.lines[1].get_data()
    assert len(said) == 10
    np.testing.assert_allclose(share, said**2, atol=0.1)
    assert "2,000 samples" in above.get_title()
