"""What the wheel and its JAR contain, and that their versions are one."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

import lakestep
from built import TOP
from lakestep import _build

VERSIONS = dict(
    line.split("=", 1)
    for line in (TOP / "versions.properties").read_text().splitlines()
    if not line.startswith("#")
)
LINES = sorted(VERSIONS["lines"].split())
LINE = pyspark.__version__[:3]
SPARK = VERSIONS[f"{LINE}.spark"]


def test_package_under_test_is_the_installed_wheel():
    assert Path(lakestep.__file__).is_relative_to(sys.prefix)


def test_wheel_jar_and_checkout_have_one_version():
    version = (TOP / "VERSION").read_text().strip()
    assert lakestep.__version__ == version
    assert metadata.version("lakestep") == version
    with ZipFile(lakestep.jar_path()) as jar:
        properties = jar.read("lakestep-build.properties").decode().splitlines()
        manifest = jar.read("META-INF/MANIFEST.MF").decode().splitlines()
    assert properties == [
        f"version={version}",
        f"spark={SPARK}",
        f"delta={VERSIONS['delta']}",
        f"lines={', '.join(LINES)}",
    ]
    assert f"Lakestep-Version: {version}" in manifest


def test_the_wheel_asks_for_the_lines_that_its_jars_are_made_for():
    asked = {str(text).split(";")[0].strip() for text in metadata.requires("lakestep") or []}
    lowest, newest = VERSIONS[f"{LINES[0]}.spark"], LINES[-1]
    delta = VERSIONS["delta"]
    for package, first, last in (("pyspark", lowest, newest), ("delta-spark", delta, delta)):
        major, minor = last.split(".")[:2]
        assert f"{package}<{major}.{int(minor) + 1},>={first}" in asked


@pytest.mark.parametrize("line", LINES)
def test_each_jar_in_the_wheel_is_of_its_line(line):
    jars = _build.jars()
    assert LINE in jars
    if line not in jars:
        pytest.skip("the wheel to work with has the JAR of one line")
    assert lakestep.jar_path(line) == lakestep.jar_path(f"{line}.9") == jars[line]
    of = _build.jar_properties(jars[line])
    assert (of["version"], of["spark"]) == (lakestep.__version__, VERSIONS[f"{line}.spark"])
    with ZipFile(jars[line]) as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode().splitlines()
    assert f"Spark-Version: {VERSIONS[f'{line}.spark']}" in manifest


def test_each_pyspark_gets_the_jar_and_the_delta_of_its_line(monkeypatch):
    for line in LINES:
        monkeypatch.setattr(pyspark, "__version__", f"{line}.0.dev1")
        assert _build.line() == line
        assert _build.delta_coordinates() == f"io.delta:delta-spark_{line}_2.13:{VERSIONS['delta']}"
        folder = _build.local_delta_jars()
        assert (folder is None) == (line != LINE)


@pytest.mark.parametrize("version", ["3.5.6", "4.3.0", "5", "latest"])
def test_spark_without_a_jar_is_refused_with_what_there_is(monkeypatch, version):
    def refused(call, *arguments):
        with pytest.raises(lakestep.ConfigurationError) as error:
            call(*arguments)
        assert error.value.getCondition() == "LAKESTEP_NO_JAR_FOR_SPARK"
        assert error.value.getMessageParameters()["lines"] == "4.0, 4.1, 4.2"
        assert version in str(error.value)

    refused(lakestep.jar_path, version)
    monkeypatch.setattr(pyspark, "__version__", version)
    refused(lakestep.jar_path)
    refused(lakestep.configure, pyspark.sql.SparkSession.builder)
    failed = cli("jar", "--spark", version)
    assert failed.returncode == 1 and "LAKESTEP_NO_JAR_FOR_SPARK" in failed.stderr


def test_jar_holds_only_our_classes_and_resources():
    ours = re.compile(
        r"io/lakestep/.*|org/apache/spark/sql/delta/lakestep/.*"
        r"|lakestep-(build\.properties|(commands|contract|linkage)\.tsv|error-conditions\.json)"
        r"|META-INF/(LICENSE|MANIFEST\.MF|services/.*)"
    )
    with ZipFile(lakestep.jar_path()) as jar:
        files = [name for name in jar.namelist() if not name.endswith("/")]
    assert [name for name in files if not ours.fullmatch(name)] == []
    assert any(name.endswith("LakestepException.class") for name in files)


def test_every_public_name_is_there_and_documented():
    assert sorted(lakestep.__all__) == lakestep.__all__
    for name in lakestep.__all__:
        value = getattr(lakestep, name)
        assert isinstance(value, str) or value.__doc__, name


def test_environment_variable_names_another_jar(monkeypatch, tmp_path):
    jar = tmp_path / "mine.jar"
    monkeypatch.setenv("LAKESTEP_JAR", str(jar))
    with pytest.raises(lakestep.ConfigurationError) as missing:
        lakestep.jar_path()
    assert missing.value.getCondition() == "LAKESTEP_JAR_NOT_FOUND"
    assert missing.value.getMessageParameters() == {"path": str(jar)}
    jar.touch()
    assert lakestep.jar_path() == str(jar)


def test_checkout_uses_the_jar_that_sbt_built(python):
    path = python(
        "answer([lakestep.jar_path(), lakestep.__version__])",
        PYTHONPATH=str(TOP / "python" / "src"),
        PYTHONDONTWRITEBYTECODE="1",
    )
    scala = VERSIONS["scala"]
    name = f"lakestep-spark_{LINE}_{scala}-{lakestep.__version__}.jar"
    assert path == [str(TOP / "target" / LINE / f"scala-{scala}" / name), lakestep.__version__]


def cli(*arguments):
    command = Path(sys.executable).parent / "lakestep"
    return subprocess.run([command, *arguments], capture_output=True, text=True)


def test_cli_prints_jar_and_version():
    assert cli("jar").stdout.strip() == lakestep.jar_path()
    assert cli("jar", "--spark", SPARK).stdout.strip() == lakestep.jar_path()
    first, used, *others = cli("version").stdout.splitlines()
    assert first == f"lakestep {lakestep.__version__}"
    delta = VERSIONS["delta"]
    assert used == f"  Spark {SPARK}, Delta {delta}, used with the PySpark that is installed"
    assert others == [
        f"  Spark {VERSIONS[f'{line}.spark']}, Delta {delta}"
        for line in _build.jars()
        if line != LINE
    ]


def test_cli_says_what_is_wrong_without_a_stack_trace(monkeypatch):
    monkeypatch.setenv("LAKESTEP_JAR", "/nowhere.jar")
    failed = cli("jar")
    assert failed.returncode == 1
    assert failed.stderr.startswith("[LAKESTEP_JAR_NOT_FOUND]")
    assert "Traceback" not in failed.stderr
