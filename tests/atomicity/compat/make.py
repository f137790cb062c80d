"""Write a database with the JAR of a checkout, in every state that a later JAR has to go on from.

``PYTHONPATH=<checkout>/python/src:<folder of its driver.py> python make.py NAME`` makes
``NAME.tar.gz`` beside this file. Paths inside are absolute, so it is written, and read, at one
place.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path

import driver as drivers
import lake as lakes

UPDATE = "UPDATE {} SET v = 'new' WHERE id = 1"
PLACE = Path("/tmp/lakestep-compat")


def make(folder: Path) -> dict[str, object]:
    lake = lakes.Lake(folder, 0)
    names = [
        "first",
        "second",
        "undone",
        "conflict",
        "left",
        "behind",
        "fenced",
        "beside",
        "closed",
    ]
    tables = {name: lake.table(name) for name in names}

    def sql(template: str, *chosen: str) -> list[str]:
        return lake.sql(template, [tables[name] for name in chosen])

    client = drivers.Driver(folder.parent, drivers.HALTING)
    session = client.session(lake.root, **{"spark.lakestep.timeline.checkpointInterval": "2"})
    session.sql(
        *sql(
            "ALTER TABLE {} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'reserve')",
            "fenced",
            "beside",
        )
    )
    session.sql(
        *sql("ALTER TABLE {} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')", "closed")
    )
    for k in range(5):
        session.sql(
            "BEGIN", *sql(f"INSERT INTO {{}} VALUES ({10 + k}, 'k')", "first", "second"), "COMMIT"
        )
    session.sql(
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        *sql("SELECT * FROM {}", "first"),
        *sql("INSERT INTO {} VALUES (20, 'serializable')", "second", "closed"),
        "COMMIT",
    )
    with client.halts("beforePublish:2") as halts:
        run = halts.during(session.start_sql("BEGIN", *sql(UPDATE, "undone", "conflict"), "COMMIT"))
        assert halts.reached() == "beforePublish:2"
        lakes.rewrite(tables["conflict"], 1)
        halts.go()
        assert halts.reached() is None and run.exception() is not None
    client.kill()
    # Everybody has begun before the first one dies: whoever begins later would finish its entry.
    clients = [drivers.Driver(folder.parent, drivers.HALTING) for _ in range(3)]
    owner, fencer, silent = (client.session(lake.root) for client in clients)
    owner.sql("BEGIN", *sql(UPDATE, "left", "behind"))
    fencer.sql("BEGIN", *sql(UPDATE, "fenced", "beside"))
    [[transaction, *_]] = silent.sql("BEGIN")
    silent.sql(*sql("INSERT INTO {} VALUES (30, 'never')", "first", "second"))
    for client, session in zip(clients, (owner, fencer), strict=False):
        with client.halts("published:1") as halts:
            halts.during(session.start_sql("COMMIT"))
            assert halts.reached() == "published:1"
            client.kill()
    clients[2].kill()
    assert lake.mark(tables["left"], lake.version(tables["left"]))["kind"] == "publish"
    assert lake.mark(tables["fenced"], lake.version(tables["fenced"]))["kind"] == "reserve"
    return {"tables": tables, "root": str(lake.root), "open": transaction}


def main(name: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    folder = PLACE / "lake"
    folder.mkdir(parents=True)
    facts = make(folder)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))
    with tarfile.open(Path(__file__).with_name(f"{name}.tar.gz"), "w:gz") as archive:
        archive.add(folder, "lake")
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    main(sys.argv[1])
