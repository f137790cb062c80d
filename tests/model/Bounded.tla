------------------------------- MODULE Bounded -------------------------------
(* The protocol with few transactions, tables of one cell, and few foreign commits. *)
EXTENDS Protocol

CONSTANTS
  TableNames,
  Shapes,          \* of the transactions
  Commits,         \* how many foreign commits there are at most
  ForeignKinds,    \* which
  Strict,          \* whether some helper judges every foreign commit a conflict
  Sleepers,        \* how many puts may be under way for any length of time
  Collects         \* whether dead transactions are ended and their files deleted

(* Whoever rewrites the cell conflicts with whoever did so or read it; appends conflict with readers alone. *)
Clash(kind, y, t) == {x \in Transactions :
  /\ kind = "publish" \/ kind = "undo" => x # y
  /\ CASE kind = "rewrite" -> t \in shape[x].capable \cup shape[x].reads
       [] kind = "append" -> t \in shape[x].reads
       [] kind = "alter" -> t \in Touched(x)
       [] kind \in {"publish", "undo"} ->
            t \in shape[x].reads \/ (t \in shape[x].capable /\ t \in shape[y].capable)
       [] kind \in {"close", "reserve"} -> FALSE}
Suspect(kind, y, t) ==
  IF Strict /\ kind \notin Kinds THEN {x \in Transactions : t \in shape[x].writes} ELSE Clash(kind, y, t)

ClashOf(p) == IF p.kind \in Kinds THEN Clash(p.kind, p.of, p.table) ELSE {}

Init ==
  /\ shape = Shapes
  /\ log = [t \in TableNames |-> <<>>]
  /\ line = <<>>
  /\ outcome = [x \in DOMAIN Shapes |-> "none"]
  /\ ended = {}
  /\ owner = [x \in DOMAIN Shapes |-> Idle]
  /\ collected = {}
  /\ asleep = [s \in 1..Sleepers |-> <<>>]

ForeignCommits == Cardinality({<<t, i>> \in Tables \X (1..20) : i <= Len(log[t]) /\ log[t][i].kind \notin Kinds})

Session(x) ==
  \/ Begin(x, FinishedPrefix)
  \/ \E t \in Touched(x) : \E v \in 0..Len(log[t]) : Pin(x, t, v)
  \/ ReadTimeline(x)
  \/ \E t \in Touched(x) : List(x, t, Len(log[t]))
  \/ Order(x)
  \/ LoseNumber(x)

Next ==
  \/ \E x \in Transactions : Session(x)
  \/ \E x \in Ordered : \E p \in PutsFor(x) :
       \/ Put(p, ClashOf(p), ClashOf(p))
       \/ \E s \in 1..Sleepers : FallAsleep(s, p)
  \/ \E s \in 1..Sleepers : asleep[s] # <<>> /\ WakeUp(s, ClashOf(asleep[s][1]), ClashOf(asleep[s][1]))
  \/ \E t \in Tables, kind \in ForeignKinds :
       ForeignCommits < Commits /\ Foreign(t, kind, Clash(kind, 0, t), Suspect(kind, 0, t))
  \/ Collects /\ \E x \in Transactions : (~Aborted(x) /\ EndOthers({x})) \/ Collect(x)
==============================================================================
