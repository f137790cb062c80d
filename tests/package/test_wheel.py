"""What the wheel and its JAR contain, and that their versions are one."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

import lakestep

TOP = Path(__file__).resolve().parents[2]
VERSIONS = dict(
    line.split("=", 1) for line in (TOP / "versions.properties").read_text().splitlines()[1:]
)


def test_package_under_test_is_the_installed_wheel():
    assert Path(lakestep.__file__).is_relative_to(sys.prefix)


def test_wheel_jar_and_checkout_have_one_version():
    version = (TOP / "VERSION").read_text().strip()
    assert lakestep.__version__ == version
    assert metadata.version("lakestep") == version
    with ZipFile(lakestep.jar_path()) as jar:
        properties = jar.read("lakestep-build.properties").decode().split()
        manifest = jar.read("META-INF/MANIFEST.MF").decode().splitlines()
    assert properties == [
        f"version={version}",
        f"spark={VERSIONS['spark']}",
        f"delta={VERSIONS['delta']}",
    ]
    assert f"Lakestep-Version: {version}" in manifest


def test_the_wheel_asks_for_the_lines_that_the_jar_is_made_for():
    asked = {str(text).split(";")[0].strip() for text in metadata.requires("lakestep") or []}
    for package, first in (("pyspark", VERSIONS["spark"]), ("delta-spark", VERSIONS["delta"])):
        major, minor, _ = first.split(".")
        assert f"{package}<{major}.{int(minor) + 1},>={first}" in asked
        assert f"{package}=={first}" in asked


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
    line, scala = VERSIONS["sparkLine"], VERSIONS["scala"]
    name = f"lakestep-spark_{line}_{scala}-{lakestep.__version__}.jar"
    assert path == [str(TOP / "target" / f"scala-{scala}" / name), lakestep.__version__]


def cli(*arguments):
    command = Path(sys.executable).parent / "lakestep"
    return subprocess.run([command, *arguments], capture_output=True, text=True)


def test_cli_prints_jar_and_version():
    assert cli("jar").stdout.strip() == lakestep.jar_path()
    assert cli("version").stdout.strip() == (
        f"lakestep {lakestep.__version__} (Spark {VERSIONS['spark']}, Delta {VERSIONS['delta']})"
    )


def test_cli_says_what_is_wrong_without_a_stack_trace(monkeypatch):
    monkeypatch.setenv("LAKESTEP_JAR", "/nowhere.jar")
    failed = cli("jar")
    assert failed.returncode == 1
    assert failed.stderr.startswith("[LAKESTEP_JAR_NOT_FOUND]")
    assert "Traceback" not in failed.stderr
