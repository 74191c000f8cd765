"""Push and load, with the real client and a small server that keeps repositories in a local folder."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import ctlpp
from ctlpp.files import UserError

pytest.importorskip("huggingface_hub")


class Hub(BaseHTTPRequestHandler):
    """What the client asks of the Hub to make, list, write and read a repository."""

    def __init__(self, root: Path, *connection: Any) -> None:
        self.root = root
        super().__init__(*connection)

    def log_message(self, *words: object) -> None:
        pass

    def reply(self, content: object, code: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def repository(self) -> Path:
        words = (
            self.path.partition("?")[0].strip("/").removeprefix("api/").removeprefix("datasets/").split("/")
        )
        return self.root.joinpath(*words[:2])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        here = f"http://{self.headers['Host']}"
        if self.path == "/api/repos/create":
            name = json.loads(body)["organization"] + "/" + json.loads(body)["name"]
            (self.root / name).mkdir(parents=True, exist_ok=True)
            self.reply({"url": f"{here}/datasets/{name}"})
        elif "/preupload/" in self.path:
            files = [one["path"] for one in json.loads(body)["files"]]
            plain = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            self.reply({"files": [{"path": path} | plain for path in files]})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                file = self.repository() / line["value"].get("path", "")
                if line["key"] == "file":
                    file.write_bytes(base64.b64decode(line["value"]["content"]))
                elif line["key"] == "deletedFile":
                    file.unlink()
            commit = f"{here}/datasets/{self.repository().relative_to(self.root)}/commit/{'0' * 40}"
            self.reply({"commitUrl": commit, "commitOid": "0" * 40, "success": True})
        else:
            self.reply({"errors": [], "warnings": []})

    def do_GET(self) -> None:
        if not self.repository().is_dir():
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif "/resolve/" in self.path:
            data = (self.repository() / self.path.rpartition("/")[2]).read_bytes()
            self.send_response(200)
            self.send_header("ETag", f'"{sha1(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)
        else:
            files = sorted(self.repository().iterdir())
            if "/tree/" in self.path:
                kind = {"type": "file", "oid": "0" * 40}
                self.reply([kind | {"path": f.name, "size": f.stat().st_size} for f in files])
            else:
                names = [{"rfilename": file.name} for file in files]
                self.reply({"id": "someone/ctl", "sha": "0" * 40, "siblings": names, "private": False})

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables that lead the client to the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, tmp_path / "hub"))
    Thread(target=server.serve_forever, daemon=True).start()
    home = {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_x", "HF_HUB_DISABLE_XET": "1"}
    yield os.environ | home | {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    server.shutdown()
    server.server_close()


@pytest.fixture
def python(hub: dict[str, str], preloaded: list[str]) -> Callable[[str], list[str]]:
    """Runs code with the server as its Hub; gives the lines that it prints."""

    def run(code: str) -> list[str]:
        program = [*preloaded, "-c", f"import ctlpp\n{code}"]
        done = subprocess.run(program, env=hub, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_a_dataset_is_pushed_and_loaded_again(python: Callable[[str], list[str]], tmp_path: Path) -> None:
    kept = tmp_path / "hub" / "someone" / "ctl"
    kept.mkdir(parents=True)
    (kept / "old.jsonl").touch()  # of a dataset in another format
    sizes = 'protocol="clean", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20'
    push = f'print(ctlpp.generate("R", {sizes}).push("hf://someone/ctl"))'
    commit, found = python(f'{push}\nprint(ctlpp.load("hf://someone/ctl").texts("ood"))')
    assert commit.endswith(f"/datasets/someone/ctl/commit/{'0' * 40}")
    dataset = ctlpp.load(kept)
    assert found == str(dataset.texts("ood"))
    files = {"README.md", "task.json", *(f"{split}.parquet" for split in dataset.splits)}
    assert {path.name for path in kept.iterdir()} == files


def test_what_cannot_be_found_is_one_line(python: Callable[[str], list[str]]) -> None:
    (line,) = python('try: ctlpp.load("hf://someone/nothing")\nexcept ValueError as error: print(error)')
    assert line.startswith("hf://someone/nothing: 404 Client Error")
    assert line.endswith("; check the name, the network, and that you are logged in")
    with pytest.raises(
        ValueError, match=r"^hf://ctl: write it as hf://owner/name, or hf://owner/name@revision$"
    ):
        ctlpp.load("hf://ctl")


def test_a_full_disk_is_not_blamed_on_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise UserError("cannot write")

    monkeypatch.setattr("ctlpp.storage.hub.save", fail)
    sizes: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 20, "ood": 20}
    with pytest.raises(UserError, match=r"^cannot write$"):
        ctlpp.generate("R", protocol="clean", **sizes).push("hf://someone/ctl")
