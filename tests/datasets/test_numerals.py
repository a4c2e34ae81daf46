"""Decimal commas and thousands separators: read as the options say, and an error names the options."""

import numpy as np
import pytest

from neuralrde.datasets import ReadError, read


def values(tmp_path, text, **options):
    (tmp_path / "one.csv").write_text(text)
    return read(tmp_path / "one.csv", **options)


def test_decimal_commas(tmp_path):
    data = values(
        tmp_path,
        "Patient;Zeit;Puls;Diagnose\n1;0,0;60,5;krank\n1;0,5;1.061,25;krank\n2;0;61;gesund\n",
        id="Patient",
        time="Zeit",
        target="Diagnose",
        decimal=",",
        thousands=".",
    )
    assert data.series.values[0, :, 0].tolist() == [60.5, 1061.25]
    assert data.series.times[0].tolist() == [0, 0.5]
    headless = values(tmp_path, "0,5;1,5;2,5\n0,25;1,25;2,25\n", wide=True, decimal=",")
    assert headless.series.values[..., 0].tolist() == [[0.5, 1.5, 2.5], [0.25, 1.25, 2.25]]


def test_decimal_commas_in_the_target(tmp_path):
    text = "id;time;x;target\na;0;1;12,5\nb;0;2;13,25\n"
    with pytest.raises(ReadError, match=r"Got '12,5' in column 'target'\. Write decimal=','"):
        values(tmp_path, text)
    data = values(tmp_path, text, decimal=",")
    assert data.target.tolist() == [12.5, 13.25]


def test_a_point_among_decimal_commas_is_no_decimal_point(tmp_path):
    text = "id;time;x;y\na;0;0,5;1.234\na;1;1,5;2.345\n"
    with pytest.raises(ReadError, match=r"line 2: Got '1.234' in column 'y'"):
        values(tmp_path, text, decimal=",")
    assert values(tmp_path, text, thousands=".", decimal=",").series.values[0, :, 1].tolist() == [1234, 2345]


def test_thousands(tmp_path):
    data = values(tmp_path, 'id,time,x\na,0,"35,000.00"\na,1,"1,234"\na,2,7\n', thousands=",")
    assert data.series.values[0, :, 0].tolist() == [35000, 1234, 7]
    data = values(tmp_path, "id;time;x\na;0;1 234,5\na;1;12\n", thousands=" ", decimal=",")
    assert data.series.values[0, :, 0].tolist() == [1234.5, 12]


def test_what_may_be_either_is_refused(tmp_path):
    text = 'id,time,x\na,0,"35,000"\na,1,"1,234"\n'
    with pytest.raises(ReadError, match=r"line 2: Got '35,000' in column 'x'.*Write decimal=',' or thousands=','"):
        values(tmp_path, text)
    assert values(tmp_path, text, thousands=",").series.values[0, :, 0].tolist() == [35000, 1234]
    assert values(tmp_path, text, decimal=",").series.values[0, :, 0].tolist() == [35, 1.234]


@pytest.mark.parametrize("cell", ["1_2", "0x10", "1 2", "1,2,3", "3.0f", "1e", "--1", "12,34.5"])
def test_what_is_no_number(tmp_path, cell):
    with pytest.raises(ReadError, match=r"line 2: Got .* in column 'x'; expected a number"):
        values(tmp_path, f'id,time,x\na,0,"{cell}"\na,1,2\n')


def test_missing_values(tmp_path):
    spelled = ["", "?", "NaN", "nan", "NA", "N/A", "n/a", "#N/A", "NULL", "None", "-", ".", " missing ", "<NA>"]
    data = values(tmp_path, "id,time,x\n" + "".join(f"a,{i},{cell}\n" for i, cell in enumerate(spelled)) + "a,99,1.5\n")
    assert np.isnan(data.series.values[0, :-1]).all()
    assert data.series.values[0, -1, 0] == 1.5


def test_a_german_table_is_read_as_its_error_says(tmp_path):
    text = "Patient;Zeitpunkt;Größe;Puls\n" + "".join(
        f"P{i};{k + 1}.02.2024;1,{k}5;60\n" for i in "ab" for k in range(5)
    )
    path = tmp_path / "german.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ReadError, match=r"line 2: Got '1,05' in column 'Größe'.* Write decimal=','"):
        read(path, id="Patient", time="Zeitpunkt")
    data = read(path, id="Patient", time="Zeitpunkt", decimal=",")
    assert data.series.values[0, :, 0].tolist() == [1.05, 1.15, 1.25, 1.35, 1.45]
    assert np.diff(data.series.times[0]).tolist() == [86400] * 4
    with pytest.raises(ReadError, match=r"line 2: Got '0,5' in column 'Zeit'.* Write decimal=','"):
        values(tmp_path, "id;Zeit;x\na;0,5;1\na;1,5;2\n", id="id", time="Zeit")
