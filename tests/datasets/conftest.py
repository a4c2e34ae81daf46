import http.server
import threading
from functools import partial

import pytest
from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("datasets", deadline=None)
settings.load_profile("datasets")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No test writes to the user's data folder, or finds anything there."""
    monkeypatch.setenv("NEURALRDE_DATA", str(tmp_path / "data"))


@pytest.fixture
def server(tmp_path):
    """A folder that is served on this machine, and its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
