"""A small data set of the tests' own, with a server that can misbehave."""

import dataclasses
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fflbench.data import Data, Examples
from fflbench.data.dataset_files import DataFile, DataSet, Download, single_file_unpacker

CONTENT = {name: f"{name}: {list(range(5000))}".encode() for name in ("first", "second")}


def prepare(contents):
    numbers = np.array(json.loads(contents["first"].split(b": ")[1]), np.float32)
    train, test = (Examples(part, part.astype(np.int64)) for part in (numbers[:3000], numbers[3000:]))
    return Data(train, test, {"largest": int(numbers.max())})


def small_set(base="http://127.0.0.1:1"):
    return DataSet(
        name="small",
        title="Small",
        files=tuple(DataFile(name, hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()),
        downloads=tuple(
            Download(urls=(f"{base}/{name}",), files=(name,), unpack=single_file_unpacker(name)) for name in CONTENT
        ),
        prepare=prepare,
        version=1,
    )


def offered_at(data_set, base):
    """The same set, offered at another address."""
    downloads = tuple(
        dataclasses.replace(download, urls=(f"{base}/{download.file_name}",)) for download in data_set.downloads
    )
    return dataclasses.replace(data_set, downloads=downloads)


@pytest.fixture
def small_set_folder(own_folders):
    """A folder that holds the small set, complete."""
    folder = own_folders / "small"
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    return folder


class Server:
    """Serves files; `break_after` cuts the next answer off, `ranges` says whether it can go on in the middle."""

    def __init__(self, files):
        self.files = files
        self.break_after = None
        self.ranges = True
        self.asked = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                content = server.files.get(self.path[1:])
                wanted = self.headers.get("Range")
                server.asked.append((self.path[1:], wanted))
                if content is None:
                    self.send_error(404)
                    return
                start = int(wanted[6:-1]) if wanted and server.ranges else 0
                if start and start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                end, server.break_after = server.break_after, None
                self.wfile.write(content[start : None if end is None else start + end])

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    server = Server(dict(CONTENT))
    yield server
    server.http.shutdown()
    server.http.server_close()
