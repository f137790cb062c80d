"""`lakestep.configure` adds to the user's settings and replaces none.

Each case runs in a Python process of its own, because a running JVM has settings already.
"""

import os
import sys
from pathlib import Path

import pytest

import lakestep
from lakestep import _build

EXTENSIONS = "io.lakestep.LakestepExtensions"
CATALOG = "io.lakestep.catalog.TransactionalCatalog"

PACKAGE = _build.delta_coordinates()
DELTA = PACKAGE.removeprefix("io.delta:").replace(":", "-") + ".jar"

CONFIGURE = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.config(map={settings})
{call}
answer(builder._options)
"""


@pytest.fixture
def configured(python):
    def run(settings=None, call="lakestep.configure(builder)", **environment):
        return python(CONFIGURE.format(settings=settings or {}, call=call), **environment)

    return run


def refused(call):
    return (
        f"try: {call}\n"
        "except lakestep.ConfigurationError as e:\n"
        "    builder._options = [e.getCondition(), e.getSqlState()]"
    )


def names(jars):
    return [Path(jar).name for jar in jars.split(",")]


def test_bare_builder_gets_jars_from_this_environment_and_needs_no_network(configured):
    options = configured()
    assert options["spark.jars"].split(",")[0] == lakestep.jar_path()
    assert DELTA in names(options["spark.jars"])
    assert "spark.jars.packages" not in options
    assert options["spark.sql.extensions"] == EXTENSIONS
    assert options["spark.sql.catalog.spark_catalog"] == CATALOG
    assert "spark.lakestep.root" not in options


def test_second_call_changes_nothing(configured):
    twice = configured(call="lakestep.configure(lakestep.configure(builder))")
    assert twice == configured()


def test_lists_are_appended_to_and_another_catalog_stays(configured):
    options = configured(
        {
            "spark.jars": "/opt/mine.jar, /opt/other.jar",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.example.Catalog",
        }
    )
    assert options["spark.jars"].startswith(f"/opt/mine.jar,/opt/other.jar,{lakestep.jar_path()},")
    assert options["spark.sql.extensions"] == (
        f"io.delta.sql.DeltaSparkSessionExtension,{EXTENSIONS}"
    )
    assert options["spark.sql.catalog.spark_catalog"] == "org.example.Catalog"


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.jars": f"/opt/{DELTA}"},
        {"spark.jars.packages": PACKAGE},
        {"spark.driver.extraClassPath": f"/a{os.pathsep}/opt/{DELTA}"},
    ],
)
def test_delta_that_the_user_brings_is_not_added_again(configured, settings):
    options = configured(settings)
    added = [name for name in names(options["spark.jars"]) if name.startswith("delta-")]
    assert added == [name for name in names(settings.get("spark.jars", "")) if name]
    assert options.get("spark.jars.packages") == settings.get("spark.jars.packages")


def test_without_a_folder_of_jars_delta_is_fetched_as_a_package(configured):
    options = configured(
        {"spark.jars.packages": "org.example:one:1"},
        call="import sys; sys.prefix = '/nowhere'; lakestep.configure(builder)",
    )
    assert options["spark.jars.packages"] == ("org.example:one:1," + PACKAGE)
    assert options["spark.jars"] == lakestep.jar_path()


def test_folder_of_delta_jars_can_be_named(configured, tmp_path):
    folder = tmp_path / "my jars"
    folder.mkdir()
    (folder / DELTA).touch()
    jar = str(folder / DELTA)
    by_argument = configured(call=f"lakestep.configure(builder, delta_jars={str(folder)!r})")
    by_environment = configured(LAKESTEP_DELTA_JARS=str(folder))
    assert by_argument["spark.jars"].split(",")[1:] == [jar]
    assert by_environment["spark.jars"].split(",")[1:] == [jar]


def test_folder_without_delta_is_refused(configured, tmp_path):
    call = f"lakestep.configure(builder, delta_jars={str(tmp_path)!r})"
    assert configured(call=refused(call)) == ["LAKESTEP_DELTA_JARS_NOT_FOUND", "55000"]


def test_settings_of_spark_defaults_and_submit_arguments_are_kept(configured, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# defaults\nspark.jars   /opt/default.jar\nspark.sql.extensions=org.example.A\n"
        "spark.sql.catalog.spark_catalog: org.example.Catalog\n"
    )
    options = configured(
        SPARK_CONF_DIR=str(tmp_path),
        PYSPARK_SUBMIT_ARGS="--conf spark.sql.extensions=org.example.B pyspark-shell",
    )
    assert options["spark.jars"].startswith(f"/opt/default.jar,{lakestep.jar_path()},")
    assert options["spark.sql.extensions"] == f"org.example.B,{EXTENSIONS}"
    assert "spark.sql.catalog.spark_catalog" not in options


def test_jars_that_spark_would_ignore_are_refused(configured):
    result = configured(
        call=refused("lakestep.configure(builder)"),
        PYSPARK_SUBMIT_ARGS="--jars /opt/mine.jar pyspark-shell",
    )
    assert result == ["LAKESTEP_JARS_FIXED", "55000"]


def test_root_is_a_path_or_a_text_and_never_replaces_another(configured, tmp_path):
    as_text = configured(call="lakestep.configure(builder, 's3a://bucket/db')")
    assert as_text["spark.lakestep.root"] == "s3a://bucket/db"
    folder = tmp_path / "my root"
    as_path = configured(
        call=f"from pathlib import Path; lakestep.configure(builder, root=Path({str(folder)!r}))"
    )
    assert as_path["spark.lakestep.root"] == f"file:{folder}"
    call = refused("lakestep.configure(builder, '/one')")
    assert configured({"spark.lakestep.root": "/two"}, call) == [
        "LAKESTEP_SETTING_CONFLICT",
        "55000",
    ]


def test_remote_server_keeps_its_own_jars_and_extensions(configured):
    options = configured(
        {"spark.remote": "sc://db.example:15002"}, call="lakestep.configure(builder, '/db')"
    )
    assert options == {
        "spark.remote": "sc://db.example:15002",
        "spark.lakestep.root": "/db",
    }


@pytest.mark.parametrize(("mode", "patched"), [("connect", True), ("classic", False)])
def test_classes_of_connect_are_met_only_where_connect_is_asked_for(configured, mode, patched):
    call = (
        "import sys; lakestep.configure(builder)\n"
        "connect = sys.modules.get('pyspark.sql.connect.readwriter')\n"
        "builder._options = [hasattr(c, 'withTransaction') for c in (\n"
        "    sys.modules['pyspark.sql.readwriter'].DataFrameWriter,\n"
        "    getattr(connect, 'DataFrameWriter', None))]"
    )
    assert configured(call=call, SPARK_API_MODE=mode) == [True, patched]


PLAIN = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for call in (lambda: lakestep.transaction(spark).__enter__(), lambda: lakestep.recover(spark)):
    try:
        call()
    except lakestep.ConfigurationError as e:
        found = [e.getCondition(), e.getMessageParameters()]
answer(found)
"""


def test_session_without_lakestep_is_told_so(python):
    assert python(PLAIN) == ["LAKESTEP_NOT_CONFIGURED", {"version": lakestep.__version__}]


OTHER_JAR = """
from pathlib import Path
from small_session import small_session
spark = small_session(Path({folder!r}), {{"spark.lakestep.version": "9.9.9"}})
try:
    with lakestep.transaction(spark):
        pass
except lakestep.ConfigurationError as e:
    answer([e.getCondition(), e.getMessageParameters()])
"""


def test_jar_of_another_version_is_refused(python, tmp_path):
    found = python(OTHER_JAR.format(folder=str(tmp_path)))
    assert found == [
        "LAKESTEP_VERSION_MISMATCH",
        {"jar": "9.9.9", "wheel": lakestep.__version__},
    ]


def test_environment_of_the_tests_is_the_one_that_setup_made():
    jars = Path(sys.prefix) / "share" / "lakestep" / "delta-jars"
    assert (jars / DELTA).is_file()
