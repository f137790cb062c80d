"""Many writers at once on two shared tables with deletion vectors: nobody meets a conflict."""

import pytest

from driver import TIMEOUT_S
from lake import Lake

EACH = 4


@pytest.mark.parametrize(
    ("drivers_number", "rounds"),
    [pytest.param(1, 1, id="4"), pytest.param(4, 5, id="16", marks=pytest.mark.long)],
)
def test_writers_of_different_rows_of_one_file_all_commit(
    drivers, tmp_path, plain, drivers_number, rounds
):
    lake = Lake(tmp_path)
    started = drivers(drivers_number)
    writers = [driver.session(lake.root) for driver in started for _ in range(EACH)]
    tables = [f"delta.`{tmp_path}/{name}`" for name in ("left", "right")]
    for table in tables:
        plain.ask(
            "sql",
            text=f"CREATE TABLE {table} (id BIGINT, v INT) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        )
        rows = f"SELECT id, 0 FROM range(0, {len(writers)}, 1, 1)"
        plain.ask("sql", text=f"INSERT INTO {table} {rows}")
    for number in range(rounds):
        work = []
        for i, writer in enumerate(writers):
            new = 1000 * (number + 1) + i
            statements = [
                statement
                for table in tables
                for statement in (
                    f"UPDATE {table} SET v = v + 1 WHERE id = {i}",
                    f"INSERT INTO {table} VALUES ({new}, {i})",
                )
            ]
            work.append(writer.start_sql("BEGIN", *statements, "COMMIT"))
        for future in work:
            future.result(TIMEOUT_S)
    kept = [[i, rounds] for i in range(len(writers))]
    added = [[1000 * (n + 1) + i, i] for n in range(rounds) for i in range(len(writers))]
    for table in tables:
        found = writers[0].sql(f"SELECT id, v FROM {table} ORDER BY id")
        assert [list(row) for row in found] == kept + added
    assert len(lake.entry_numbers()) == rounds * len(writers)
    lake.check_timeline()
