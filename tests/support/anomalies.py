"""Which anomalies of isolation a history of list appends shows: what Elle does, for mixed levels.

A key holds a list; transactions append values, each used once, and read whole lists. The longest
list that was read of a key is the order of its versions. From it follow, as in Adya's theory, who
read whose version (wr), who wrote after whom (ww) and who read what was then replaced (rw).

Levels differ by transaction, so that each has two nodes, its start and its commit, and an edge
says that the one event was before the other. A history is right if no event is before itself:

- wr: the writer's commit is before the reader's start;
- ww: the first commit is before the other's start (of two that change one row the second fails),
  but only before its commit for keys to which appending is an INSERT (`inserted`);
- rw: the reader's start is before the writer's commit, and if the reader is SERIALIZABLE its commit
  is, too;
- session: what a client did is before what it does next;
- realtime: a commit that had returned is before the start of a BEGIN that may write.

One that writes nothing is one node. Sources: Adya's thesis, 2000; Kingsbury and Alvaro, "Elle",
VLDB 2020; Crooks and others, "Seeing is believing", PODC 2017.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise, takewhile

import networkx as nx

READ, APPEND = "r", "append"


@dataclass(frozen=True, eq=False)
class Txn:
    """What a client asked and was told. `ops`: (READ, key, list) and (APPEND, key, value)."""

    number: int
    client: str
    began: float
    ended: float
    ops: tuple
    outcome: str = "ok"  # or "fail": nothing of it may be seen; or "info": nobody knows
    serializable: bool = True
    strict: bool = True  # A BEGIN that may write.

    @property
    def appends(self):
        found = defaultdict(list)
        for kind, key, value in self.ops:
            if kind == APPEND:
                found[key].append(value)
        return found


@dataclass(frozen=True)
class Anomaly:
    kind: str
    why: str


def check(history, inserted=()):
    """Return the anomalies; `inserted` are the keys to which appending is an INSERT."""
    found = _Versions(history)
    return found.anomalies + _cycles(_events(found, frozenset(inserted)))


class _Versions:
    """Who wrote and read which version, and what needs no graph to be wrong."""

    def __init__(self, history):
        self.anomalies = []
        self.writer = {
            (key, value): txn for txn in history for kind, key, value in txn.ops if kind == APPEND
        }
        done = [txn for txn in history if txn.outcome == "ok"]
        self.reads = [read for txn in done for read in self._external_reads(txn)]
        self.order = defaultdict(list)
        for _, key, values in self.reads:
            self.order[key] = max(self.order[key], values, key=len)
            self._check_values(key, values)
        for txn, key, values in self.reads:
            self._check_version(txn, key, values)
        seen = {self.writer.get((key, v)) for _, key, values in self.reads for v in values}
        unknown = [txn for txn in history if txn.outcome == "info" and txn in seen]
        self.committed = {txn: None for txn in done + unknown}  # A set that keeps its order.
        self.unseen = defaultdict(list)
        for txn in self.committed:
            for key in txn.appends:
                self._look_for(txn, key)

    def _found(self, kind, why):
        self.anomalies.append(Anomaly(kind, why))

    def _external_reads(self, txn):
        """What it read of others; its own appends and reads must show in its later reads."""
        base, own = {}, defaultdict(list)
        for kind, key, value in txn.ops:
            if kind == APPEND:
                own[key].append(value)
                continue
            mine = own[key]
            start = len(value) - len(mine)
            if list(value[start:]) != mine or list(value[:start]) != base.get(key, value[:start]):
                self._found("internal", f"{txn.number} read {value} of {key} after {base}, {mine}")
            base.setdefault(key, list(value[: max(start, 0)]))
        return [(txn, key, values) for key, values in base.items()]

    def _check_values(self, key, values):
        if len(set(values)) < len(values):
            self._found("duplicate-elements", f"{key}: {values}")
        for value in values:
            writer = self.writer.get((key, value))
            if writer is None:
                self._found("unwritten", f"{key}: {value} of {values}")
            elif writer.outcome == "fail":
                self._found("G1a", f"{key}: {value} of {values}; {writer.number} failed")

    def _check_version(self, txn, key, values):
        if self.order[key][: len(values)] != values:
            self._found("incompatible-order", f"{key}: {values} and {self.order[key]}")
        writer = self.last_writer(key, values)
        if writer and writer is not txn and writer.appends[key][-1] != values[-1]:
            self._found("G1b", f"{txn.number} read {values} of {key} in the middle of {writer}")

    def _look_for(self, txn, key):
        missing = [value for value in txn.appends[key] if value not in self.order[key]]
        if not missing:
            return
        self.unseen[key].append(txn)
        for reader, read, _ in self.reads:
            if read == key and reader.strict and txn.outcome == "ok" and txn.ended < reader.began:
                self._found("lost-append", f"{missing} to {key} by {txn.number}: {reader.number}")
                return

    def last_writer(self, key, values):
        return self.writer.get((key, values[-1])) if values else None

    def writers(self, key):
        """Those whose versions were seen, in their order."""
        found = []
        for value in self.order[key]:
            writer = self.writer.get((key, value))
            if writer in self.committed and (not found or found[-1] is not writer):
                found.append(writer)
        return found

    def next_writers(self, key, values):
        """Who made the version after this one; all that may have, where nobody saw it."""
        order = self.order[key]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(values, order, strict=False))
        common = len(list(same))
        for value in order[common:]:
            writer = self.writer.get((key, value))
            if writer in self.committed:
                return [writer]
        return self.unseen[key]


def _start(txn):
    return ("start" if txn.appends else "both", txn.number)


def _commit(txn):
    return ("commit" if txn.appends else "both", txn.number)


def _events(found, inserted):
    graph = nx.DiGraph()

    def before(kind, event, other):
        if event != other and not graph.has_edge(event, other):
            graph.add_edge(event, other, kind=kind)

    for txn in found.committed:
        before("itself", _start(txn), _commit(txn))
    for key in sorted(found.order.keys() | found.unseen.keys()):
        later = _commit if key in inserted else _start
        writers = found.writers(key)
        for one, other in pairwise(writers):
            before("ww", _commit(one), later(other))
        for last in writers[-1:]:
            for other in found.unseen[key]:
                before("ww", _commit(last), _commit(other))
    for txn, key, values in found.reads:
        writer = found.last_writer(key, values)
        if writer in found.committed and writer is not txn:
            before("wr", _commit(writer), _start(txn))
        for writer in found.next_writers(key, values):
            if writer is not txn:
                before("rw", _start(txn), _commit(writer))
                if txn.serializable:
                    before("rw", _commit(txn), _commit(writer))
    _add_sessions(before, found.committed)
    _add_realtime(before, found.committed)
    return graph


def _add_sessions(before, committed):
    sessions = defaultdict(list)
    for txn in sorted(committed, key=lambda txn: txn.began):
        sessions[txn.client].append(txn)
    for txns in sessions.values():
        for one, other in pairwise(txns):
            before("session", _commit(one), _start(other))


def _add_realtime(before, committed):
    """Through the moments at which a commit returned, so that there are few edges."""
    moments = [(txn.ended, 1, txn) for txn in committed if txn.outcome == "ok"]
    moments += [(txn.began, 0, txn) for txn in committed if txn.strict]
    now = None
    for _, ends, txn in sorted(moments, key=lambda moment: (moment[:2], moment[2].number)):
        if ends:
            moment = ("moment", txn.number)
            if now:
                before("realtime", now, moment)
            before("realtime", _commit(txn), moment)
            now = moment
        elif now:
            before("realtime", now, _start(txn))


# Which edges a cycle may have beside one rw or none, and what it is called then.
_ORDERS = [("", set()), ("-session", {"session"}), ("-realtime", {"session", "realtime"})]


def _cycles(graph):
    found = []
    for component in nx.strongly_connected_components(graph):
        if len(component) > 1:
            found.append(_cycle(graph.subgraph(component)))
    return found


def _cycle(graph):
    """The simplest of the cycles: with the fewest rw, then without order of time."""
    for suffix, orders in _ORDERS:
        for name, kinds in (("G0", {"ww"}), ("G1c", {"ww", "wr"})):
            cycle = _any_cycle(_only(graph, kinds | orders | {"itself"}))
            if cycle:
                return Anomaly(name + suffix, _told(graph, cycle))
    for suffix, orders in _ORDERS:
        rest = _only(graph, {"ww", "wr", "itself"} | orders)
        for one, other, kind in graph.edges(data="kind"):
            if kind == "rw" and rest.has_node(one) and nx.has_path(rest, other, one):
                cycle = [one, *nx.shortest_path(rest, other, one)]
                return Anomaly("G-single" + suffix, _told(graph, cycle))
    for suffix, orders in _ORDERS:
        cycle = _any_cycle(_only(graph, {"ww", "wr", "rw", "itself"} | orders))
        if cycle:
            return Anomaly("G2-item" + suffix, _told(graph, cycle))
    raise AssertionError("a component without a cycle")


def _only(graph, kinds):
    kept = nx.DiGraph()
    kept.add_nodes_from(graph)
    kept.add_edges_from((a, b) for a, b, kind in graph.edges(data="kind") if kind in kinds)
    return kept


def _any_cycle(graph):
    try:
        edges = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return None
    return [edges[0][0], *(edge[1] for edge in edges)]


def _told(graph, cycle):
    def name(event):
        return f"{event[0]} {event[1]}"

    steps = (f" -{graph.edges[a, b]['kind']}-> {name(b)}" for a, b in pairwise(cycle))
    return name(cycle[0]) + "".join(steps)
