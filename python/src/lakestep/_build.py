"""What belongs to this build: its version, its JAR, its error texts, Delta's JARs.

The same questions have two answers: in an installed wheel the files lie in the package, in a
checkout they lie where the build puts them.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from zipfile import ZipFile

from lakestep import _errors

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[2]
_IN_CHECKOUT = (_CHECKOUT / "build.sbt").is_file() and _PACKAGE.parent.name == "src"


def version() -> str:
    """Return the version of this package, the same as its JAR's."""
    return ((_CHECKOUT if _IN_CHECKOUT else _PACKAGE) / "VERSION").read_text().strip()


@functools.cache
def _versions() -> dict[str, str]:
    """Return which Spark, Delta and Scala this build is made for."""
    path = (_CHECKOUT if _IN_CHECKOUT else _PACKAGE) / "versions.properties"
    return _properties(path.read_text())


def _properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def delta_coordinates() -> str:
    """Return Delta's Maven coordinates, as ``spark.jars.packages`` takes them."""
    v = _versions()
    return f"io.delta:delta-spark_{v['sparkLine']}_{v['scala']}:{v['delta']}"


def jar_path() -> str:
    """Return the path of the Lakestep JAR, for ``--jars`` and clusters.

    Looked for in this order: the environment variable ``LAKESTEP_JAR``; in a checkout, the JAR that
    sbt built; the JAR inside the wheel. The file is there when this returns.

    Returns
    -------
    str
        An absolute path.

    Raises
    ------
    ConfigurationError
        ``LAKESTEP_JAR_NOT_FOUND``.

    Examples
    --------
    >>> lakestep.jar_path()  # doctest: +SKIP
    '/…/site-packages/lakestep/jars/lakestep-spark_4.2_2.13-0.1.0.jar'
    """
    scala = _versions()["scala"]
    name = f"lakestep-spark_{_versions()['sparkLine']}_{scala}-{version()}.jar"
    named = os.environ.get("LAKESTEP_JAR")
    if named:
        path = Path(named).absolute()
    elif _IN_CHECKOUT:
        path = _CHECKOUT / "target" / f"scala-{scala}" / name
    else:
        path = _PACKAGE / "jars" / name
    if not path.is_file():
        raise _errors.error("LAKESTEP_JAR_NOT_FOUND", path=str(path))
    return str(path)


def jar_properties() -> dict[str, str]:
    """Return ``version``, ``spark`` and ``delta`` as the JAR of `jar_path` records them."""
    with ZipFile(jar_path()) as jar:
        return _properties(jar.read("lakestep-build.properties").decode())


def local_delta_jars() -> Path | None:
    """Return a folder of Delta's JARs that needs no network, or None.

    Looked for in this order: the environment variable ``LAKESTEP_DELTA_JARS``, the Python
    environment's ``share/lakestep/delta-jars``, in a checkout ``target/delta-jars``.
    """
    named = os.environ.get("LAKESTEP_DELTA_JARS")
    if named:
        return Path(named).absolute()
    folders = [Path(sys.prefix) / "share" / "lakestep" / "delta-jars"]
    if _IN_CHECKOUT:
        folders.append(_CHECKOUT / "target" / "delta-jars")
    return next((folder for folder in folders if any(folder.glob("delta-spark_*.jar"))), None)


def conditions_path() -> Path:
    """Return the path of the error conditions, the same file as in the JAR."""
    name = "lakestep-error-conditions.json"
    if _IN_CHECKOUT:
        return _CHECKOUT / "scala" / "src" / "main" / "resources" / name
    return _PACKAGE / name
