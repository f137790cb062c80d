"""What belongs to this build: its version, its JARs, its error texts, Delta's JARs.

Spark has lines (4.2 for 4.2.0, 4.2.1, …), and a JAR is for one of them.

The same questions have two answers: in an installed wheel the files lie in the package, in a
checkout they lie where the build puts them.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from zipfile import ZipFile

import pyspark

from lakestep import _errors

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[2]
_IN_CHECKOUT = (_CHECKOUT / "build.sbt").is_file() and _PACKAGE.parent.name == "src"


def version() -> str:
    """Return the version of this package, the same as its JAR's."""
    return ((_CHECKOUT if _IN_CHECKOUT else _PACKAGE) / "VERSION").read_text().strip()


@functools.cache
def _versions() -> dict[str, str]:
    """Return which lines of Spark, which Delta and Scala this build is made for."""
    path = (_CHECKOUT if _IN_CHECKOUT else _PACKAGE) / "versions.properties"
    return _properties(path.read_text())


def _properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def lines() -> list[str]:
    """Return the supported lines of Spark, the oldest first."""
    return sorted(_versions()["lines"].split())


def line(spark: str | None = None) -> str:
    """Return the line of a Spark version; of the PySpark that is installed, if none is given.

    Raises
    ------
    ConfigurationError
        ``LAKESTEP_NO_JAR_FOR_SPARK``.
    """
    found = pyspark.__version__ if spark is None else spark
    wanted = ".".join(found.split(".")[:2])
    if wanted not in lines():
        raise _errors.error(
            "LAKESTEP_NO_JAR_FOR_SPARK",
            version=version(),
            found=found,
            lines=", ".join(lines()),
        )
    return wanted


def delta_coordinates() -> str:
    """Return Delta's Maven coordinates, as ``spark.jars.packages`` takes them."""
    v = _versions()
    return f"io.delta:delta-spark_{line()}_{v['scala']}:{v['delta']}"


def jar_path(spark: str | None = None) -> str:
    """Return the path of the Lakestep JAR, for ``--jars`` and clusters.

    Looked for in this order: the environment variable ``LAKESTEP_JAR``; in a checkout, the JAR that
    sbt built; the JAR inside the wheel. The file is there when this returns.

    Parameters
    ----------
    spark : str, optional
        The Spark that the JAR is for, ``4.1`` or ``4.1.3``. ``LAKESTEP_JAR`` is not looked at then.
        Default: the version of the PySpark that is installed.

    Returns
    -------
    str
        An absolute path.

    Raises
    ------
    ConfigurationError
        ``LAKESTEP_JAR_NOT_FOUND``, ``LAKESTEP_NO_JAR_FOR_SPARK``.

    Examples
    --------
    >>> lakestep.jar_path()  # doctest: +SKIP
    '/…/site-packages/lakestep/jars/lakestep-spark_4.2_2.13-0.1.0.jar'
    """
    named = os.environ.get("LAKESTEP_JAR")
    path = Path(named).absolute() if named and spark is None else _own_jar(line(spark))
    if not path.is_file():
        raise _errors.error("LAKESTEP_JAR_NOT_FOUND", path=str(path))
    return str(path)


def _own_jar(line: str) -> Path:
    scala = _versions()["scala"]
    name = f"lakestep-spark_{line}_{scala}-{version()}.jar"
    if _IN_CHECKOUT:
        return _CHECKOUT / "target" / line / f"scala-{scala}" / name
    return _PACKAGE / "jars" / name


def jars() -> dict[str, str]:
    """Return the path of each JAR that is here, by its line of Spark."""
    return {line: str(path) for line in lines() if (path := _own_jar(line)).is_file()}


def jar_properties(path: str) -> dict[str, str]:
    """Return ``version``, ``spark``, ``delta`` and ``lines`` as a JAR records them."""
    with ZipFile(path) as jar:
        return _properties(jar.read("lakestep-build.properties").decode())


def local_delta_jars() -> Path | None:
    """Return a folder of Delta's JARs for this PySpark that needs no network, or None.

    Looked for in this order: the environment variable ``LAKESTEP_DELTA_JARS``, the Python
    environment's ``share/lakestep/delta-jars``, in a checkout ``target/<line>/delta-jars``.
    """
    named = os.environ.get("LAKESTEP_DELTA_JARS")
    if named:
        return Path(named).absolute()
    folders = [Path(sys.prefix) / "share" / "lakestep" / "delta-jars"]
    if _IN_CHECKOUT:
        folders.append(_CHECKOUT / "target" / line() / "delta-jars")
    delta = f"delta-spark_{line()}_*.jar"
    return next((folder for folder in folders if any(folder.glob(delta))), None)


def conditions_path() -> Path:
    """Return the path of the error conditions, the same file as in the JAR."""
    name = "lakestep-error-conditions.json"
    if _IN_CHECKOUT:
        return _CHECKOUT / "scala" / "src" / "main" / "resources" / name
    return _PACKAGE / name
