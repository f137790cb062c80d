"""Settings of a Spark session that Lakestep needs, added to those the user already has."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lakestep import _build, _errors, _writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXTENSIONS = "io.lakestep.LakestepExtensions"
CATALOG = "io.lakestep.catalog.TransactionalCatalog"
_JARS = "spark.jars"
_PACKAGES = "spark.jars.packages"


def configure(
    builder: SparkSession.Builder,
    root: str | os.PathLike[str] | None = None,
    *,
    delta_jars: str | os.PathLike[str] | None = None,
) -> SparkSession.Builder:
    """Add Lakestep to a session builder and return the builder.

    What the user set before, on the builder, by ``spark-submit``, in ``PYSPARK_SUBMIT_ARGS`` or in
    ``spark-defaults.conf``, stays: lists are appended to, single values are never replaced. Calling
    it again changes nothing. For a remote Spark Connect server only `root` is set, because its JARs
    and extensions are fixed when the server starts.

    Parameters
    ----------
    builder : SparkSession.Builder
        Call this before the first ``getOrCreate()`` of the process.
    root : str or path, optional
        ``spark.lakestep.root``, the folder of the timeline. A path object is a local folder, a
        string is any path Spark understands. Default: ``_lakestep`` in the warehouse.
    delta_jars : str or path, optional
        A folder with Delta's JARs. Default: ``LAKESTEP_DELTA_JARS``, then the Python environment's
        ``share/lakestep/delta-jars``. Where there is none, and Spark brings no Delta of its own,
        Spark fetches Delta as a package at session start.

    Returns
    -------
    SparkSession.Builder
        The same builder.

    Raises
    ------
    ConfigurationError
        ``LAKESTEP_NO_JAR_FOR_SPARK``, ``LAKESTEP_JAR_NOT_FOUND``,
        ``LAKESTEP_DELTA_JARS_NOT_FOUND``, ``LAKESTEP_JARS_FIXED``, ``LAKESTEP_SETTING_CONFLICT``.

    Examples
    --------
    >>> import lakestep
    >>> from pyspark.sql import SparkSession

    >>> spark = lakestep.configure(SparkSession.builder).getOrCreate()  # doctest: +SKIP
    """
    user = _UserSettings(builder)
    if user.wants_connect():
        _errors.install(connect=True)
        _writer.install(connect=True)
    if root is not None:
        _set_root(builder, user, root)
    if user.is_remote_server():
        return builder
    _errors.install()
    _build.line()

    jars = user.list_of(_JARS)
    wanted = [] if _holds(jars, "lakestep-spark_") else [_build.jar_path()]
    if not user.has_delta() or delta_jars is not None:
        folder = Path(delta_jars).absolute() if delta_jars is not None else None
        folder = folder or _build.local_delta_jars()
        if folder is None:
            packages = [*user.list_of(_PACKAGES), _build.delta_coordinates()]
            builder.config(_PACKAGES, ",".join(packages))
        else:
            wanted += _jars_in(folder, jars)
    if wanted:
        if user.jars_are_fixed():
            raise _errors.error("LAKESTEP_JARS_FIXED", jars=",".join(wanted))
        builder.config(_JARS, ",".join([*jars, *wanted]))

    extensions = user.list_of("spark.sql.extensions")
    if _EXTENSIONS not in extensions:
        builder.config("spark.sql.extensions", ",".join([*extensions, _EXTENSIONS]))
    if user.get("spark.sql.catalog.spark_catalog") is None:
        builder.config("spark.sql.catalog.spark_catalog", CATALOG)
    return builder


def quiet(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Switch off the log of Spark, and its bar of progress, where the user did not set them.

    Spark logs the stack trace of each task that fails. A remote server is left as it is.
    """
    user = _UserSettings(builder)
    for key, value in (("spark.log.level", "OFF"), ("spark.ui.showConsoleProgress", "false")):
        if user.get(key) is None and not user.is_remote_server():
            builder.config(key, value)
    return builder


def meet(spark: SparkSession) -> None:
    """Check that the session runs the JAR of this package; from then on its errors are ours.

    Raises
    ------
    ConfigurationError
        ``LAKESTEP_NOT_CONFIGURED`` or ``LAKESTEP_VERSION_MISMATCH``.
    """
    connect = _writer.is_connect(spark)
    _errors.install(connect=connect)
    _writer.install(connect=connect)
    try:
        jar = spark.conf.get("spark.lakestep.version")
    except PySparkException as unknown:
        if unknown.getCondition() != "SQL_CONF_NOT_FOUND":
            raise
        raise _errors.error("LAKESTEP_NOT_CONFIGURED", version=_build.version()) from None
    if jar != _build.version():
        raise _errors.error("LAKESTEP_VERSION_MISMATCH", jar=str(jar), wheel=_build.version())


def _set_root(
    builder: SparkSession.Builder, user: _UserSettings, root: str | os.PathLike[str]
) -> None:
    # Not a URI: Hadoop takes the text as it is, so an escaped blank would stay escaped.
    wanted = root if isinstance(root, str) else f"file:{Path(root).absolute()}"
    present = user.get("spark.lakestep.root")
    if present is not None and present != wanted:
        raise _errors.error(
            "LAKESTEP_SETTING_CONFLICT",
            setting="spark.lakestep.root",
            present=present,
            wanted=wanted,
        )
    builder.config("spark.lakestep.root", wanted)


def _jars_in(folder: Path, present: Iterable[str]) -> list[str]:
    found = sorted(folder.glob("*.jar"))
    if not _holds(map(str, found), f"delta-spark_{_build.line()}_"):
        raise _errors.error("LAKESTEP_DELTA_JARS_NOT_FOUND", folder=str(folder), line=_build.line())
    names = {_file_name(jar) for jar in present}
    return [str(jar) for jar in found if jar.name not in names]


def _file_name(jar: str) -> str:
    return jar.rsplit("/", 1)[-1]


def _holds(jars: Iterable[str], prefix: str) -> bool:
    return any(_file_name(jar).startswith(prefix) for jar in jars)


class _UserSettings:
    """What is set before us: by the builder, else by the process that starts the JVM."""

    def __init__(self, builder: SparkSession.Builder) -> None:
        self._options: dict[str, object] = builder._options
        self._arguments: dict[str, str] = {}
        self._process: dict[str, str] = {}
        if _jvm_is_running():
            from pyspark import SparkConf, SparkContext

            SparkContext._ensure_initialized()
            self._process = dict(SparkConf().getAll())
        else:
            self._arguments = _submit_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
            self._process = {**_spark_defaults(), **self._arguments}

    def get(self, key: str) -> str | None:
        value = self._options.get(key)
        return str(value) if value is not None else self._process.get(key)

    def list_of(self, key: str) -> list[str]:
        return [item.strip() for item in (self.get(key) or "").split(",") if item.strip()]

    def is_remote_server(self) -> bool:
        return self._remote().startswith("sc://")

    def wants_connect(self) -> bool:
        mode = self.get("spark.api.mode") or os.environ.get("SPARK_API_MODE") or ""
        return bool(self._remote()) or mode.lower() == "connect"

    def _remote(self) -> str:
        return str(self._options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "")

    def jars_are_fixed(self) -> bool:
        """Return whether Spark will take its JARs from the arguments, whatever the builder says."""
        return _JARS in self._arguments

    def has_delta(self) -> bool:
        if _holds(self.list_of(_JARS), "delta-spark_"):
            return True
        if any(package.startswith("io.delta:delta-spark_") for package in self.list_of(_PACKAGES)):
            return True
        class_path = (self.get("spark.driver.extraClassPath") or "").split(os.pathsep)
        if _holds(class_path, "delta-spark_"):
            return True
        return any((_spark_home() / "jars").glob("delta-spark_*.jar"))


def _jvm_is_running() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _submit_arguments(text: str) -> dict[str, str]:
    """Return the settings in ``PYSPARK_SUBMIT_ARGS``; its flags win over its ``--conf``."""
    flags = {"--jars": _JARS, "--packages": _PACKAGES}
    flags["--driver-class-path"] = "spark.driver.extraClassPath"
    words = shlex.split(text)
    settings: dict[str, str] = {}
    named: dict[str, str] = {}
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        flag, equals, inline = word.partition("=")
        value = inline if equals else following
        if flag in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            settings[key] = setting
        elif flag in flags:
            named[flags[flag]] = value
    return {**settings, **named}


def _spark_defaults() -> dict[str, str]:
    folder = os.environ.get("SPARK_CONF_DIR")
    path = (Path(folder) if folder else _spark_home() / "conf") / "spark-defaults.conf"
    if not path.is_file():
        return {}
    settings: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        match = re.match(r"\s*([^\s#!=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$", line)
        if match:
            settings[match.group(1)] = match.group(2)
    return settings
