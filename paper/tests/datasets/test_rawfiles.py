"""Files are found, fetched and checked; a missing one is named with its place."""

import hashlib
import urllib.error
from pathlib import Path

import pytest

from matcha_gnn.errors import InvalidFileError
from matcha_paper.datasets import rawfiles
from matcha_paper.datasets.rawfiles import Origin, data_root, has_file, raw_file

CONTENT = b"what was published"
HERE = Origin("toy", "https://example.org/{file}")


class Answer:
    def __init__(self, content):
        self.content = content

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def read(self):
        return self.content


@pytest.fixture
def web(monkeypatch):
    """What the network answers, by address; anything else fails."""
    pages = {}

    def urlopen(address, timeout):
        if address not in pages:
            raise urllib.error.URLError("no route to host")
        return Answer(pages[address])

    monkeypatch.setattr(rawfiles.urllib.request, "urlopen", urlopen)
    digest = hashlib.sha256(CONTENT).hexdigest()
    monkeypatch.setattr(rawfiles, "checksums", lambda: {"toy/a.txt": digest})
    return pages


def put(root, content):
    path = root / "toy" / "a.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_the_root_is_the_argument_then_the_variable_then_the_cache_folder(monkeypatch):
    monkeypatch.setenv("MATCHA_DATA", "from-variable")
    assert data_root("from-argument") == Path("from-argument")
    assert data_root() == Path("from-variable")
    monkeypatch.delenv("MATCHA_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert data_root() == Path("caches/matcha-gnn")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert data_root() == Path.home() / ".cache" / "matcha-gnn"


def test_a_missing_file_is_downloaded_once_and_kept(tmp_path, web):
    web["https://example.org/a.txt"] = CONTENT
    assert not has_file(HERE, "a.txt", tmp_path)
    path = raw_file(HERE, "a.txt", tmp_path)
    assert path.read_bytes() == CONTENT
    web.clear()
    assert raw_file(HERE, "a.txt", tmp_path) == path


def test_a_download_of_another_file_is_refused_and_not_kept(tmp_path, web):
    web["https://example.org/a.txt"] = b"an error page"
    with pytest.raises(InvalidFileError, match="its address has another file now"):
        raw_file(HERE, "a.txt", tmp_path)
    assert not (tmp_path / "toy").exists()


def test_a_changed_file_is_refused(tmp_path, web):
    put(tmp_path, CONTENT + b"!")
    with pytest.raises(InvalidFileError, match=r"a\.txt \(other content\).*sha256"):
        raw_file(HERE, "a.txt", tmp_path)


def test_without_network_the_message_says_which_file_goes_where(tmp_path, web):
    with pytest.raises(InvalidFileError) as caught:
        raw_file(HERE, "a.txt", tmp_path)
    said = str(caught.value)
    assert "\n" not in said
    for part in (str(tmp_path / "toy" / "a.txt"), "no route to host", "https://example.org/a.txt"):
        assert part in said
    assert "MATCHA_DATA" in said


def test_every_file_at_hand_has_its_published_checksum(data_root):
    """Those that are there: a data root need not be complete."""
    there = {path: data_root / path for path in rawfiles.checksums() if (data_root / path).exists()}
    assert there
    for path, file in there.items():
        assert rawfiles.sha256(file) == rawfiles.checksums()[path], path
