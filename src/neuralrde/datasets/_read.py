"""`read`: any file or folder of series."""

from collections.abc import Sequence
from pathlib import Path

from .dataset import Dataset
from .folder import first_file, read_folder
from .labels import with_labels
from .readers import names_in, read_file
from .roles import TableOptions
from .targets import Task


def read(
    path: str | Path,
    *,
    target: str | int | Sequence[str] | None = None,
    id: str | int | None = None,
    time: str | int | None = None,
    group: str | int | None = None,
    split: str | int | None = None,
    columns: Sequence[str] | None = None,
    wide: bool | None = None,
    per_time: bool | None = None,
    header: bool | None = None,
    labels: str | Path | None = None,
    labels_id: str | None = None,
    time_format: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    duplicates: str = "error",
    drop_unlabelled: bool = False,
    sensor: str | int | None = None,
    value: str | int | None = None,
    one_hot: Sequence[str] | bool | None = None,
    task: Task | None = None,
    name: str | None = None,
) -> Dataset:
    """Read series, and what is to be predicted, from a file or a folder.

    A file is a table (`.csv`, `.tsv`, `.parquet`, ...) or says itself what is what (`.ts`, `.arff`, `.npz`, ...);
    `endings()` lists all formats, and text may be gzipped. A folder holds `NAME_TRAIN` and `NAME_TEST`, sub-folders
    `train` and `test`, a sub-folder per class, or files, each a series or a table. A file that is not what its
    ending says is read as what it is.

    A table is long (a row per point, with a column that says which series it belongs to), wide (a row per
    series, its points in numbered columns), or melted (a row per value). Columns called id, time (t,
    timestamp), target (label, class), group (patient, subject, speaker) and split are known by their names; all
    others are channels, unless `columns` says which are. Missing values are empty, ?, -, NaN, NA, N/A, #N/A,
    null or none. `Dataset.reading` says in one sentence how a table was understood; what is ambiguous is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "hearts.csv"
    >>> _ = path.write_text("patient,hour,pulse,ill\\n1,0.0,60,no\\n1,0.5,,no\\n2,0.0,90,yes\\n")
    >>> data = read(path, id="patient", time="hour", target="ill")
    >>> data  # doctest: +ELLIPSIS
    Dataset('hearts': 2 samples of 2 classes; 1 to 2 points, 1 channel: pulse; times 0 to 0.5; ...)
    >>> data.reading
    'long table, 2 series by `patient`, time from `hour` (numbers), channels pulse, target `ill` (2 classes)'

    Args:
        path: the file or folder.
        target: the column to predict (without a header, its number from 0); a list names several, of numbers.
        id: the column that says which series a row belongs to.
        time: the column of times: numbers, dates (which become seconds since 1970) or clock times.
        group: the column of patients, speakers, ...
        split: the column that says train, validation or test.
        columns: the channels; of a melted table, the sensors; None takes all other columns.
        wide: whether a row is a series; None decides: it is if there are no times, ids do not repeat, and the
            columns are numbered (0, 1, ...; x_0, x_1, ..., y_0, ...) or have no names.
        per_time: whether the target of a long table may change within a series.
        header: whether the first row names the columns; None decides: it does if a cell is no number and no date.
        labels: a second table, with a row per series, that has `target` (and `group`, `split`, if there).
        labels_id: its column of ids; None takes the name that `id` has, or id.
        time_format: of the times: a format such as "%d.%m.%y %H:%M", "day-first" or "month-first" for dates such as
            1/2/2024, "clock" for clock times, or "number"; None decides, and refuses 1/2/2024.
        decimal: "," or "."; None decides, if that is possible.
        thousands: what divides thousands, such as "," or "."; None decides, if that is possible.
        duplicates: what to do with several rows of a series at one time: "error", or take their "mean", or the
            "first" or "last" of them.
        drop_unlabelled: whether series without a target are left out; otherwise they are an error.
        sensor: of a melted table, the column that names the channel.
        value: of a melted table, the column with the number; None takes the one called value.
        one_hot: columns of words that become a channel per word, 0 or 1; True takes all columns of words.
            None refuses words.
        task: "classification" or "regression"; None decides: words and few whole numbers are classes, see
            `guess_task`.
        name: of the data set; None takes the file's.
    """
    options = TableOptions(
        target=target,
        id=id,
        time=time,
        group=group,
        split=split,
        columns=columns,
        wide=wide,
        per_time=bool(per_time),
        header=header,
        labels=labels,
        labels_id=labels_id,
        time_format=time_format,
        decimal=decimal,
        thousands=thousands,
        duplicates=duplicates,
        drop_unlabelled=drop_unlabelled,
        sensor=sensor,
        value=value,
        one_hot=one_hot,
    )
    path = Path(path).expanduser()
    options.check(path)
    if path.is_dir():
        return read_folder(path, options=options, task=task, name=name)
    data = read_file(path, options, task=task if labels is None else None, name=name)
    return data if labels is None else with_labels(data, options, task)


def column_names(path: str | Path, header: bool | None = None) -> list[str]:
    """Of a table, or of the first file in a folder: numbers if there is no header, and none if it is no table."""
    path = Path(path).expanduser()
    file = first_file(path) if path.is_dir() else path
    return [] if file is None or not file.exists() else names_in(file, header)
