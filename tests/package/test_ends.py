"""What follows a COMMIT is done before its driver has ended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import files_on_disk
import small_session

pytestmark = pytest.mark.classic

PROGRAM = """
import sys
from pathlib import Path

from small_session import small_session

spark = small_session(Path(sys.argv[1]))
names = [f"t{number}" for number in range(8)]
for name in names:
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta")
spark.sql("BEGIN")
for name in names:
    spark.sql(f"INSERT INTO {name} VALUES (1)")
spark.sql("COMMIT")
if sys.argv[2] == "stop":
    spark.stop()
"""

OPEN = """
import sys
from pathlib import Path

from small_session import small_session

spark = small_session(Path(sys.argv[1]))
spark.sql("CREATE TABLE t (id INT) USING delta")
spark.sql("BEGIN")
spark.sql("INSERT INTO t VALUES (1)")
spark.stop()
spark = small_session(Path(sys.argv[1]))
path = f"{sys.argv[1]}/warehouse/t"
assert spark.read.format("delta").load(path).count() == 0
spark.sql(f"BEGIN; INSERT INTO delta.`{path}` VALUES (2); COMMIT")
assert spark.read.format("delta").load(path).collect()[0][0] == 2
(ended,) = spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS").collect()
spark.stop()
"""


@pytest.mark.parametrize("end", ["stop", "exit"])
def test_a_driver_that_ends_leaves_nothing_staged_and_every_checksum(tmp_path, end):
    support = str(Path(small_session.__file__).parent)
    environment = os.environ | {"PYTHONPATH": support}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), end]
    # The JVM ends after Python: its end is that of the pipe, which it holds too.
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    tables = sorted((tmp_path / "warehouse").glob("t*"))
    assert len(tables) == 8
    for table in tables:
        assert files_on_disk.staged_commits(table) == []
        assert sorted(file.name for file in (table / "_delta_log").glob("[0-9]*.crc")) == [
            f"{version:020}.crc" for version in range(2)
        ]
    assert not any((tmp_path / "timeline" / "transactions").glob("*.json"))


def test_a_session_that_stops_commits_nothing_of_its_transaction(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(small_session.__file__).parent)}
    command = [sys.executable, "-c", OPEN, str(tmp_path)]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    assert files_on_disk.staged_commits(tmp_path / "warehouse" / "t") == []
    assert not any((tmp_path / "timeline" / "transactions").glob("*.json"))
