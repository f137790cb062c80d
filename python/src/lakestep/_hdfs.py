"""HDFS, read by the package hdfs-native: a client in Rust, which starts no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hdfs_native import Client, FileReader, FileStatus
from pyarrow import fs

A = TypeVar("A")

# Hadoop's own, for an address without a port that is no name service.
_PORT = 8020
# A name node with an address of its own has none to take over: given up in seconds, not minutes.
_ONE_NODE = {"dfs.client.failover.max.attempts": "3"}


class Hdfs:
    """What `Stores` asks of pyarrow's file systems, for one cluster.

    A folder that is missing has no files. Both packages have a way through fsspec; there names with
    ``#`` or ``?`` are cut, and no file has a time.

    Parameters
    ----------
    authority : str
        A name service of ``HADOOP_CONF_DIR``, the address of a name node, or nothing for
        ``fs.defaultFS``.
    """

    def __init__(self, authority: str) -> None:
        self._client = _client(authority)

    def open_input_stream(self, path: str, compression: None = None) -> FileReader:
        """Open a file."""
        return self._asked(self._client.read, path)

    open_input_file = open_input_stream

    def get_file_info(self, asked: str | fs.FileSelector) -> Any:  # noqa: ANN401
        """Tell of one path, or of all that a selector asks for."""
        if isinstance(asked, fs.FileSelector):
            return list(self._below(asked.base_dir, asked.recursive))
        try:
            return _info(self._client.get_file_info(asked))
        except FileNotFoundError:
            return fs.FileInfo(asked, fs.FileType.NotFound)

    def _below(self, folder: str, is_recursive: bool) -> Iterator[fs.FileInfo]:
        folders = [folder]
        while folders:
            path = folders.pop()
            try:
                found = self._asked(self._list, path)
            except FileNotFoundError:
                continue
            for status in found:
                if status.path == path:
                    raise NotADirectoryError(path)
                yield _info(status)
                if is_recursive and status.isdir:
                    folders.append(status.path)

    def _list(self, folder: str) -> list[FileStatus]:
        """Return all, or nothing: a folder may go away meanwhile, and is missing then."""
        return list(self._client.list_status(folder))

    def _asked(self, ask: Callable[[str], A], path: str) -> A:
        try:
            return ask(path)
        except RuntimeError:
            # Below a file HDFS denies access; only to this question it says that nothing is there.
            self._client.get_file_info(path)
            raise


def _client(authority: str) -> Client:
    if authority.rpartition(":")[2].isdigit():
        return Client(f"hdfs://{authority}", _ONE_NODE)
    try:
        return Client(f"hdfs://{authority}")
    except RuntimeError:
        if not authority:
            raise
        return Client(f"hdfs://{authority}:{_PORT}", _ONE_NODE)


def _info(status: FileStatus) -> fs.FileInfo:
    return fs.FileInfo(
        status.path,
        fs.FileType.Directory if status.isdir else fs.FileType.File,
        mtime_ns=status.modification_time * 1_000_000,
        size=None if status.isdir else status.length,
    )
