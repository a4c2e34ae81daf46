"""Results that others have published, with their protocols, to stand beside one's own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedResult:
    """One published number.

    A comparison means something only under the same protocol: `protocol` says how the data were divided and what was
    averaged.
    """

    dataset: str
    method: str
    metric: str
    value: float
    spread: float | None
    """The standard deviation over repeats; None where none was given."""
    protocol: str
    source: str


_MORRILL = "Morrill, Salvi, Kidger, Foster (2021), Neural Rough Differential Equations for Long Time Series"
_WALKER = "Walker et al. (2024), Log Neural Controlled Differential Equations; Rusch, Rus (2025), LinOSS"
_SLICE = "Walker et al. (2025), Structured Linear Controlled Differential Equations"
_LOGSIG_SSM = "LogSig-SSM (2026), arXiv 2610.05051, repository felix-oury/LogSigSSM, outputs/summary.md"
_DAMPED = "D-LinOSS (2025), arXiv 2505.12171"
_PATCH = "Zhang et al. (2024), t-PatchGNN; Yalavarthi et al. (2024), GraFITi, run again in its protocol"
_PYRREGULAR = "Spinnato, Landi (2026), Pyrregular, files of results"

# protocol and source; then lines of data set, metric, method, value, and the deviation or "-".
_TABLES = (
    (
        "70/15/15 at random over all recordings, so that windows of one patient are in all parts; mean over 3 seeds",
        _MORRILL,
        """
        BIDMC32RR rmse ODE-RNN 1.66 .06
        BIDMC32RR rmse NCDE 2.79 .04
        BIDMC32RR rmse NRDE 1.49 .08
        BIDMC32HR rmse ODE-RNN 6.75 .9
        BIDMC32HR rmse NCDE 9.82 .34
        BIDMC32HR rmse NRDE 2.97 .45
        BIDMC32SpO2 rmse ODE-RNN 1.98 .31
        BIDMC32SpO2 rmse NCDE 2.83 .27
        BIDMC32SpO2 rmse NRDE 1.29 .15
        EigenWorms accuracy NCDE 62.4 12.1
        EigenWorms accuracy NRDE 83.8 3.0
        """,
    ),
    (
        "duplicates removed, five random splits 70/15/15, hyperparameters by validation; accuracy in %",
        _WALKER,
        """
        EigenWorms accuracy NCDE 75.0 3.9
        EigenWorms accuracy NRDE 83.9 7.3
        EigenWorms accuracy Log-NCDE 85.6 5.1
        EigenWorms accuracy S5 81.1 3.7
        EigenWorms accuracy LinOSS 95.0 4.4
        SelfRegulationSCP1 accuracy NCDE 79.8 5.6
        SelfRegulationSCP1 accuracy NRDE 80.9 2.5
        SelfRegulationSCP1 accuracy Log-NCDE 83.1 2.8
        SelfRegulationSCP1 accuracy S5 89.9 4.6
        SelfRegulationSCP1 accuracy LinOSS 87.8 2.6
        SelfRegulationSCP2 accuracy NCDE 53.0 2.8
        SelfRegulationSCP2 accuracy NRDE 53.7 6.9
        SelfRegulationSCP2 accuracy Log-NCDE 53.7 4.1
        SelfRegulationSCP2 accuracy S5 50.5 2.6
        SelfRegulationSCP2 accuracy LinOSS 59.0 8.1
        """,
    ),
    (
        "duplicates removed, five random splits 70/15/15, hyperparameters by validation; accuracy in %",
        _SLICE,
        """
        EigenWorms accuracy SLiCE 86.7 4.1
        SelfRegulationSCP1 accuracy SLiCE 84.9 1.9
        SelfRegulationSCP2 accuracy SLiCE 53.3 7.5
        """,
    ),
    (
        "duplicates removed, five random splits 70/15/15 by torch's permutation, windows tuned per data set; mean over "
        "shuffled batches of 32 of their accuracies in %, which is not the share of series that are right",
        _LOGSIG_SSM,
        """
        EigenWorms mean_batch_accuracy LogSig-SSM 95.3 3.6
        SelfRegulationSCP1 mean_batch_accuracy LogSig-SSM 88.4 1.9
        SelfRegulationSCP2 mean_batch_accuracy LogSig-SSM 58.5 2.9
        EthanolConcentration mean_batch_accuracy LogSig-SSM 51.4 6.9
        Heartbeat mean_batch_accuracy LogSig-SSM 76.9 9.7
        MotorImagery mean_batch_accuracy LogSig-SSM 59.9 3.4
        EigenWorms mean_batch_accuracy LogSig-SSM-rule 92.5 6.0
        SelfRegulationSCP1 mean_batch_accuracy LogSig-SSM-rule 85.5 3.2
        SelfRegulationSCP2 mean_batch_accuracy LogSig-SSM-rule 51.9 8.0
        EthanolConcentration mean_batch_accuracy LogSig-SSM-rule 32.3 1.9
        Heartbeat mean_batch_accuracy LogSig-SSM-rule 72.2 6.6
        MotorImagery mean_batch_accuracy LogSig-SSM-rule 49.7 4.3
        """,
    ),
    (
        "duplicates removed, five random splits 70/15/15, hyperparameters by validation; accuracy in %",
        _DAMPED,
        """
        EigenWorms accuracy D-LinOSS 93.9 3.2
        SelfRegulationSCP1 accuracy D-LinOSS 88.9 3.0
        SelfRegulationSCP2 accuracy D-LinOSS 58.6 2.3
        EthanolConcentration accuracy D-LinOSS 29.9 0.6
        Heartbeat accuracy D-LinOSS 75.8 4.9
        MotorImagery accuracy D-LinOSS 61.1 2.0
        """,
    ),
    (
        "the first 24 hours, then all observations of the next 24; 60/20/20 at random; variables scaled to [0, 1]",
        _PATCH,
        """
        PhysioNet2012 forecast_mse GraFITi .00489 -
        PhysioNet2012 forecast_mse t-PatchGNN .00498 -
        PhysioNet2012 forecast_mse GRU-D .00559 -
        PhysioNet2012 forecast_mse Warpformer .00594 -
        PhysioNet2012 forecast_mse Latent-ODE .00605 -
        PhysioNet2012 forecast_mse mTAND .00623 -
        PhysioNet2012 forecast_mse NeuralFlow .00720 -
        PhysioNet2012 forecast_mse CRU .00856 -
        PhysioNet2012 forecast_mse PatchTST .0120 -
        PhysioNet2012 forecast_mse DLinear .0419 -
        PhysioNet2012 forecast_mae GraFITi .0365 -
        PhysioNet2012 forecast_mae t-PatchGNN .0372 -
        PhysioNet2012 forecast_mae GRU-D .0408 -
        PhysioNet2012 forecast_mae Warpformer .0421 -
        PhysioNet2012 forecast_mae Latent-ODE .0423 -
        PhysioNet2012 forecast_mae mTAND .0451 -
        PhysioNet2012 forecast_mae NeuralFlow .0467 -
        PhysioNet2012 forecast_mae CRU .0516 -
        PhysioNet2012 forecast_mae PatchTST .0602 -
        PhysioNet2012 forecast_mae DLinear .155 -
        """,
    ),
    (
        "death in hospital: trained on set a, tested on set b, the defaults of each method",
        _PYRREGULAR,
        """
        PhysioNet2012 auroc RIFC .827 -
        PhysioNet2012 auroc LightGBM .784 -
        PhysioNet2012 auroc GRU-D .778 -
        PhysioNet2012 auroc BORF .745 -
        PhysioNet2012 auroc Raindrop .648 -
        PhysioNet2012 auroc NCDE .538 -
        """,
    ),
)


def published(dataset: str | None = None) -> list[PublishedResult]:
    """Published results, of one data set or of all.

    >>> [(one.method, one.value) for one in published("BIDMC32HR")]
    [('ODE-RNN', 6.75), ('NCDE', 9.82), ('NRDE', 2.97)]
    """
    found = []
    for protocol, source, lines in _TABLES:
        for line in lines.split("\n")[1:-1]:
            name, metric, method, value, spread = line.split()
            number = None if spread == "-" else float(spread)
            found.append(PublishedResult(name, method, metric, float(value), number, protocol, source))
    names = list(dict.fromkeys(one.dataset for one in found))
    if dataset is not None and dataset not in names:
        raise ValueError(f"Got {dataset!r}, of which no results are kept; expected one of {', '.join(names)}.")
    return [one for one in found if dataset in (None, one.dataset)]
