"""adya, another checker of histories, in Rust; `make test-long` installs it."""

import json
import subprocess
from pathlib import Path

from anomalies import APPEND, READ, Txn

ADYA = Path(__file__).resolve().parents[2] / "target" / "adya" / "bin" / "adya"
TIMEOUT_S = 600

# What it calls our levels.
MODELS = {"SNAPSHOT": "strong-snapshot-isolation", "SERIALIZABLE": "strict-serializable"}


def is_right(history, level, file):
    """Whether it finds nothing in a history of one level; it holds every reader to real time."""
    file.write_text(as_elle(history))
    done = _run("check", "-c", MODELS[level], str(file), cwd=file.parent)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0


def as_elle(history):
    """One JSON object a line, as Elle and adya read it."""
    processes = {client: i for i, client in enumerate(dict.fromkeys(t.client for t in history))}
    lines = []
    for txn in history:
        asked = [[kind, key, None if kind == READ else value] for kind, key, value in txn.ops]
        told = txn.ops if txn.outcome == "ok" else asked
        for when, kind, value in ((txn.began, "invoke", asked), (txn.ended, txn.outcome, told)):
            line = {"process": processes[txn.client], "type": kind, "value": value}
            lines.append((when, json.dumps(line)))
    return "".join(line + "\n" for _, line in sorted(lines, key=lambda line: line[0]))


def simulated(isolation, seed, folder):
    """The history of a database that it simulates."""
    options = ["-n", "150", "-p", "5", "--seed", str(seed)]
    _run("run", "sim", "-i", isolation, *options, cwd=folder)
    history, invoked = [], {}
    for time, line in enumerate((folder / "history.jsonl").read_text().splitlines()):
        event = json.loads(line)
        client, outcome, value = event["process"], event["type"], event["value"]
        if outcome == "invoke":
            invoked[client] = time, value
            continue
        began, asked = invoked.pop(client)
        ops = tuple(
            (READ, str(key), list(v or ())) if kind == READ else (APPEND, str(key), v)
            for kind, key, v in (value if outcome == "ok" else asked)
            if kind == APPEND or outcome == "ok"
        )
        history.append(Txn(len(history), str(client), began, time, ops, outcome))
    return history


def _run(*words, cwd):
    return subprocess.run(
        [ADYA, *words], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S
    )
