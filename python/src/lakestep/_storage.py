"""Reading the files of a timeline and of tables where they lie, without Spark.

Local disks and S3 by the file systems of pyarrow, HDFS by the package hdfs-native. No JVM starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from lakestep import _errors

if TYPE_CHECKING:
    from types import TracebackType

    from pyarrow import fs

    from lakestep._hdfs import Hdfs

A = TypeVar("A")
B = TypeVar("B")

# One reading is one request, and most of its time is waiting.
_AT_ONCE = 32
_BLOCK_BYTES = 1 << 16

_S3 = ("s3", "s3a", "s3n")


@dataclass(frozen=True)
class Place:
    """Where a file or folder lies: its store, and the path in it, of which nothing is escaped."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def named(cls, text: str) -> Place:
        """Return the place that a person means; ``spark.lakestep.root`` names places so, too."""
        scheme, authority, path = _split(text)
        if scheme == "file":
            path = os.path.realpath(path)
        return cls(scheme, authority, path.rstrip("/"))

    @classmethod
    def of(cls, uri: str) -> Place:
        """Return the place that a file of the protocol names: by a URI, else by a bare path."""
        scheme, authority, path = _split(uri)
        return cls(scheme, authority, (unquote(path) if ":" in uri else path).rstrip("/"))

    def __truediv__(self, name: str) -> Place:
        return replace(self, path=f"{self.path}/{name}")

    def __str__(self) -> str:
        authority = f"//{self.authority}" if self.authority else ""
        return f"{self.scheme}:{authority}{self.path}"


def _split(text: str) -> tuple[str, str, str]:
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        return "file", "", str(Path(text).absolute())
    scheme, authority = scheme.lower(), ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    if scheme in _S3:
        scheme = "s3a"
    elif scheme not in ("file", "hdfs"):
        raise _invalid(text, "the command line reads local disks, S3 (s3a) and HDFS")
    if scheme == "s3a" and not authority:
        raise _invalid(text, "it names no bucket")
    if scheme != "s3a" and not rest.startswith("/"):
        raise _invalid(text, "its path is not absolute")
    return scheme, "" if scheme == "file" else authority, rest


def _invalid(path: str, reason: str) -> _errors.LakestepError:
    return _errors.error("LAKESTEP_STORE_PATH_INVALID", path=path, reason=reason)


@dataclass(frozen=True)
class Found:
    """What a folder holds under a name; a folder on S3 has no time."""

    name: str
    is_file: bool
    size: int | None
    modified: datetime | None


class Stores:
    """Reads files, many at once. A context manager, which ends its threads.

    Parameters
    ----------
    endpoint : str, optional
        The URL of an S3 that is not Amazon's. Default: ``AWS_ENDPOINT_URL_S3``, then
        ``AWS_ENDPOINT_URL``. Region and credentials are those of AWS's own tools: ``AWS_REGION``,
        ``AWS_ACCESS_KEY_ID``, ``~/.aws``, and the role of the machine.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        self._endpoint = endpoint or next(filter(None, map(os.environ.get, names)), None)
        self._systems: dict[tuple[str, str], fs.FileSystem | Hdfs] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    def get(self, file: Place) -> bytes | None:
        """Return what a file holds, or None if there is no such file.

        Raises
        ------
        LakestepError
            ``LAKESTEP_STORE_READ_FAILED``.
        """
        with _explained(file):
            try:
                with self._open(file) as stream:
                    content: bytes = stream.read()
                    return content
            except (FileNotFoundError, NotADirectoryError):
                return None

    def first_line(self, file: Place) -> bytes | None:
        """Return the first line of a file, or None if there is no such file. Raises as `get`."""
        with _explained(file):
            try:
                with self._open(file) as stream:
                    content = b""
                    while b"\n" not in content and (block := stream.read(_BLOCK_BYTES)):
                        content += block
                    return content.partition(b"\n")[0]
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self, file: Place) -> bool:
        """Return whether there is such a file. Raises as `get`."""
        with _explained(file):
            try:
                self._open(file).close()
                return True
            except (FileNotFoundError, NotADirectoryError):
                return False

    def list(self, folder: Place) -> list[Found]:
        """Return what stands in a folder, by name; nothing if there is none. Raises as `get`."""
        with _explained(folder):
            from pyarrow import fs

            try:
                infos = self._system(folder).get_file_info(
                    fs.FileSelector(_path(folder), allow_not_found=True)
                )
            except (FileNotFoundError, NotADirectoryError):
                return []
            found = [
                Found(info.base_name, info.type == fs.FileType.File, info.size, info.mtime)
                for info in infos
            ]
            return sorted(found, key=lambda one: one.name)

    def size(self, file: Place) -> int | None:
        """Return how many bytes a file has, or None if there is no such file. Raises as `get`."""
        with _explained(file):
            from pyarrow import fs

            info = self._system(file).get_file_info(_path(file))
            return int(info.size) if info.type == fs.FileType.File else None

    def tree(self, folder: Place) -> dict[Place, int]:
        """Return the files of a folder and of all folders in it, with their bytes.

        Raises as `get`.
        """
        with _explained(folder):
            from pyarrow import fs

            infos = self._system(folder).get_file_info(
                fs.FileSelector(_path(folder), allow_not_found=True, recursive=True)
            )
            begin = len(_path(folder)) - len(folder.path)
            return {
                replace(folder, path=info.path[begin:]): info.size
                for info in infos
                if info.type == fs.FileType.File
            }

    def rows(self, file: Place, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a Parquet file; columns that it has not are left out. Raises as `get`.

        A file that is missing is an error, too.
        """
        with _explained(file):
            from pyarrow import parquet

            with self._system(file).open_input_file(_path(file)) as source:
                for batch in parquet.ParquetFile(source).iter_batches(columns=list(columns)):
                    yield from batch.to_pylist()

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
        """Yield what a function makes of each item, in order; many calls run at once.

        The function must not call this.
        """
        rest = iter(items)
        while some := list(islice(rest, 8 * _AT_ONCE)):
            yield from self._pool.map(function, some)

    def _open(self, file: Place) -> fs.NativeFile:
        return self._system(file).open_input_stream(_path(file), compression=None)

    def _system(self, place: Place) -> fs.FileSystem | Hdfs:
        with self._lock:
            key = (place.scheme, place.authority)
            if key not in self._systems:
                self._systems[key] = self._made(place)
            return self._systems[key]

    def _made(self, place: Place) -> fs.FileSystem | Hdfs:
        from pyarrow import fs

        if place.scheme == "file":
            return fs.LocalFileSystem()
        if place.scheme == "hdfs":
            return _hdfs(place)
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if self._endpoint is None:
            return fs.S3FileSystem(region=region or fs.resolve_s3_region(place.authority))
        scheme, _, host = self._endpoint.rpartition("://")
        return fs.S3FileSystem(
            region=region or "us-east-1", scheme=scheme or "https", endpoint_override=host
        )

    def __enter__(self) -> Stores:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _hdfs(place: Place) -> Hdfs:
    try:
        from lakestep._hdfs import Hdfs
    except ModuleNotFoundError as error:
        raise _errors.error(
            "LAKESTEP_PACKAGE_NOT_FOUND", path=str(place), package="hdfs-native", extra="hdfs"
        ) from error
    return Hdfs(place.authority)


def _path(place: Place) -> str:
    return f"{place.authority}{place.path}" if place.scheme == "s3a" else place.path or "/"


@contextmanager
def _explained(place: Place) -> Iterator[None]:
    import pyarrow

    try:
        yield
    # hdfs-native has RuntimeError for all that is no OSError, with Java's trace in one line.
    except (OSError, UnicodeError, RuntimeError, pyarrow.ArrowException) as error:
        text = str(error).partition(r"\n\tat ")[0].strip()
        reason = (text.splitlines() or [type(error).__name__])[0]
        raise _errors.error("LAKESTEP_STORE_READ_FAILED", path=str(place), reason=reason) from error
