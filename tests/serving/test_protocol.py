"""Tensors of the Open Inference Protocol, as JSON and as bytes; what is none is refused in a sentence."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde.tools.serving import RequestError
from neuralrde.tools.serving.protocol import parse, respond


def body(**tensor) -> bytes:
    return json.dumps({"inputs": [{"name": "values", "shape": [1, 2, 1], "datatype": "FP64", **tensor}]}).encode()


@pytest.mark.parametrize("data", [[1.5, None], [[[1.5], [None]]]])
def test_json_flat_or_nested(data):
    _, arrays = parse(body(data=data), None)
    assert np.array_equal(arrays["values"], [[[1.5], [np.nan]]], equal_nan=True)


def test_booleans_and_whole_numbers():
    assert parse(body(data=[True, False], datatype="BOOL"), None)[1]["values"].tolist() == [[[True], [False]]]
    assert parse(body(data=[7, -7], datatype="INT8"), None)[1]["values"].tolist() == [[[7], [-7]]]


def test_bytes_after_the_json():
    values = np.array([[[1.5], [-2.0]]], "<f4")
    head = body(datatype="FP32", parameters={"binary_data_size": 8})
    _, arrays = parse(head + values.tobytes(), str(len(head)))
    assert np.array_equal(arrays["values"], values)


@pytest.mark.parametrize(
    ("sent", "length", "told"),
    [
        (b"", None, "no inference request"),
        (b"[" * 5000, None, "no inference request"),
        (b"\xff\xfe", None, "no inference request"),
        (b'{"inputs": 3}', None, "no inference request"),
        (body(data=[1.0]), None, r"shape \[1\]"),
        (body(data=["1", "2"]), None, "no tensor of FP64"),
        (body(data=[True, False]), None, "no tensor of FP64"),
        (body(data=[[1.0, 2.0]]), None, r"expected \[1, 2, 1\]"),
        (body(data=[1.0, 2.0], shape=[-1, 2]), None, r"`int` >= 0 - at `\$.inputs\[0\].shape"),
        (body(data=[1.0, 2.0], shape=[1, 2, 1, 1]), None, "length <= 3"),
        (body(data=[1.0, 2.0], shape=[2**62, 2**62, 4]), None, "expected"),
        (body(data=[1.0, 2.0], datatype="FP8"), None, "enum value 'FP8'"),
        (body(data=[-7000.5, 2.0], datatype="UINT8"), None, "no tensor of UINT8"),
        (body(data=[-1, 2], datatype="UINT8"), None, "no tensor of UINT8"),
        (body(data=[1, 300], datatype="INT8"), None, "no tensor of INT8"),
        (body(data=[1, None], datatype="INT8"), None, "no tensor of INT8"),
        (body(data=[1, 2], datatype="BOOL"), None, "no tensor of BOOL"),
        (body(data=[1e300, 2.0], datatype="FP32"), None, "no tensor of FP32"),
        (body(data=[], shape=[2**40, 2**40, 0]), None, "sizes that an array can have"),
        (body(parameters={"binary_data_size": 0}, shape=[2**40, 2**40, 0]), None, "sizes that an array can have"),
        (body(), None, "no data for 'values'"),
        (body(parameters={"binary_data_size": 99}), None, "binary_data_size=99"),
        (body(parameters={"binary_data_size": 16}), None, "0 bytes"),
        (body(data=[1.0, 2.0]) + b"rest", None, "no inference request"),
        (body(data=[1.0, 2.0]), "5", "no inference request"),
        (body(data=[1.0, 2.0]), "99999", "expected a number up to"),
        (body(data=[1.0, 2.0]), "-1", "expected a number up to"),
    ],
)
def test_what_is_none_is_refused(sent, length, told):
    with pytest.raises(RequestError, match=told) as error:
        parse(sent, length)
    assert error.value.status == 400


@given(st.binary(max_size=200), st.none() | st.integers(0, 300).map(str))
def test_anything_is_parsed_or_refused(sent, length):
    with contextlib.suppress(RequestError):  # any other error fails the test
        request, arrays = parse(sent, length)
        assert set(arrays) == {one.name for one in request.inputs}


def test_responses_in_json_and_bytes():
    request, _ = parse(body(data=[1.0, 2.0]), None)
    types = {"a": "FP64", "b": "BYTES"}
    outputs = {"a": np.array([1.0, 2.0]), "b": np.array(["up", "über"], object)}
    content, headers = respond("m", request, types, outputs, {})
    assert [one["data"] for one in json.loads(content)["outputs"]] == [[1.0, 2.0], ["up", "über"]]
    request.parameters.binary_data_output = True
    content, headers = respond("m", request, types, outputs, {})
    length = int(headers["Inference-Header-Content-Length"])
    sizes = [one["parameters"]["binary_data_size"] for one in json.loads(content[:length])["outputs"]]
    assert sizes == [16, 4 + 2 + 4 + 5]
    assert content[length:] == np.array([1.0, 2.0]).tobytes() + b"\2\0\0\0up\5\0\0\0\xc3\xbcber"
