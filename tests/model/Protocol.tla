------------------------------ MODULE Protocol ------------------------------
(***************************************************************************)
(* The commit protocol, as scala/PROTOCOL.md (section 3) numbers its steps. *)
(*                                                                         *)
(* All truth is in files that are created by put-if-absent and never       *)
(* changed: the entries of the timeline, their ends, the commits of the    *)
(* tables.  Publishing, deciding and undoing is done by anyone: a put may  *)
(* be made by whoever knew enough for it, at once or, by a sleeper, at any *)
(* later time.  Nobody needs to go on, and there are no clocks.            *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANT Off     \* the safeguards that are taken away

VARIABLES
  shape,         \* per transaction its tables: writes, of these capable (conflict-capable), two (with
                 \* two parts or more), three, reserves and closed (modes `reserve`, `forbid`), of the
                 \* closed ones those that it opens; and reads
  log,           \* per table: its commits, slot by slot
  line,          \* the timeline's entries, number by number
  outcome,       \* per transaction: "none", "completed", "aborting"
  ended,         \* transactions whose rolled_back exists
  owner,         \* per transaction: what its session knows
  collected,     \* transactions whose files were deleted
  asleep         \* puts that were decided upon and not made yet, by sleeper

vars == <<shape, log, line, outcome, ended, owner, collected, asleep>>
files == <<log, line, outcome, ended, collected>>

Has(safeguard) == safeguard \notin Off
Max(S) == IF S = {} THEN 0 ELSE CHOOSE n \in S : \A m \in S : m <= n
Min(S) == CHOOSE n \in S : \A m \in S : n <= m

Tables == DOMAIN log
Transactions == DOMAIN shape
Touched(x) == shape[x].writes \cup shape[x].reads

-----------------------------------------------------------------------------
(* The timeline. *)

Numbers(x) == {n \in DOMAIN line : line[n].kind = "order" /\ line[n].of = x}
IsOrdered(x) == Numbers(x) # {}
Number(x) == Min(Numbers(x))
Aborted(x) == \E n \in DOMAIN line : line[n].kind = "abort" /\ x \in line[n].ends
IsFinished(x) == outcome[x] = "completed" \/ x \in ended
IsFinishedEntry(n) == line[n].kind = "abort" \/ IsFinished(line[n].of)
FinishedPrefix == Max({n \in DOMAIN line : \A m \in 1..n : IsFinishedEntry(m)})

-----------------------------------------------------------------------------
(* A table's log.  A commit says whom it conflicts with: `clash` by the rules of everybody, *)
(* `suspect` by those of some helper, too. *)

Kinds == {"reserve", "publish", "close", "undo"}
IsOf(c, x) == c.kind \in Kinds /\ c.of = x
Base(x, t) == owner[x].base[t]
After(x, t) == (Base(x, t) + 1)..Len(log[t])
Own(x, t) == {i \in After(x, t) : IsOf(log[t][i], x)}
OwnOf(x, t, kind) == {i \in Own(x, t) : log[t][i].kind = kind}
Parts(x, t) == OwnOf(x, t, "publish")
Settlements(x, t) == OwnOf(x, t, "close") \cup OwnOf(x, t, "undo")
LastPart(x, t) == IF t \in shape[x].three THEN 3 ELSE IF t \in shape[x].two THEN 2 ELSE 1

(* The vote of the table: its last part is published. *)
Votes(x, t) == {i \in Parts(x, t) : ~Has("PartsInMarks") \/ log[t][i].part = LastPart(x, t)}

(* What whoever walks the log meets before the vote: a conflict, or a table that was settled already. *)
Evidence(x, t) ==
  {i \in After(x, t) :
    /\ x \in log[t][i].suspect \/ i \in Settlements(x, t)
    /\ \A v \in Votes(x, t) : i < v}
IsConflicting(x) == \E t \in shape[x].writes : Evidence(x, t) # {}

(* Marks of entries that are, and are not, in a snapshot. *)
MarksUpTo(t, n) == {i \in DOMAIN log[t] : log[t][i].kind \in Kinds /\ Number(log[t][i].of) <= n}
MarksAfter(t, n) == {i \in DOMAIN log[t] : log[t][i].kind \in Kinds /\ Number(log[t][i].of) > n}

(* Somebody has changed what we published; with one cell a table that cannot be taken back. *)
HasResidue(x, t) ==
  /\ t \in shape[x].capable
  /\ \E i \in Parts(x, t), j \in DOMAIN log[t] : i < j /\ log[t][j].kind = "rewrite"

-----------------------------------------------------------------------------
(* Steps 7 to 9: what anyone may put, judged by what stands in the files.  *)

Published(x, t) == Votes(x, t) # {}

(* Nobody else can write them: now, or once the fences are in. *)
Guarded(x) == shape[x].reserves \cup shape[x].closed

MayPublish(x, t, part) ==
  /\ IsOrdered(x) /\ t \in shape[x].writes
  /\ Settlements(x, t) = {}
  /\ MarksAfter(t, Number(x)) = {}
  /\ \A i \in After(x, t) : x \notin log[t][i].clash
  /\ {log[t][i].part : i \in Parts(x, t)} = 1..(part - 1)
  /\ part <= LastPart(x, t)
  /\ Has("CapableFirst") /\ t \notin shape[x].capable => \A u \in shape[x].capable : Published(x, u)
  /\ \/ Has("OpenBeforeReserved") /\ t \in shape[x].reserves
     \/ Has("OpenBeforeClosed") /\ t \in shape[x].closed
     => \A u \in shape[x].capable \ Guarded(x) : Published(x, u)
  /\ Has("ReservesAll") \/ t \notin shape[x].reserves => \A u \in shape[x].reserves : OwnOf(x, u, "reserve") # {}

(* Mode `reserve`: a fence in each of several conflict-capable tables, before any is published. *)
MayReserve(x, t) ==
  /\ IsOrdered(x) /\ t \in shape[x].reserves
  /\ Own(x, t) = {}
  /\ \A i \in After(x, t) : x \notin log[t][i].clash

MayComplete(x) == IsOrdered(x) /\ \A t \in shape[x].writes : Published(x, t)

MayAbort(x) == IsOrdered(x) /\ IsConflicting(x)

MaySettle(x) ==
  outcome[x] = "aborting" \/ (~Has("DecidesFirst") /\ outcome[x] = "none" /\ MayAbort(x))

MayClose(x, t) == MaySettle(x) /\ Has("Closes") /\ t \in shape[x].writes /\ Parts(x, t) \cup Settlements(x, t) = {}

MayUndo(x, t) ==
  /\ MaySettle(x) /\ t \in shape[x].writes
  /\ Parts(x, t) # {} /\ Settlements(x, t) = {}
  /\ Has("EndsWithResidue") \/ ~HasResidue(x, t)

IsSettled(x, t) == Settlements(x, t) # {} \/ (~Has("Closes") /\ Parts(x, t) = {})
MayEnd(x) == outcome[x] = "aborting" /\ \A t \in shape[x].writes : IsSettled(x, t)

(* A put is a record; its slot is the one after the head that its maker listed. *)
InLog(kind, x, t, part) == [kind |-> kind, of |-> x, table |-> t, part |-> part, slot |-> Len(log[t]) + 1]
Ending(kind, x) == [kind |-> kind, of |-> x]

PutsFor(x) ==
  UNION {{InLog("publish", x, t, part) : part \in 1..LastPart(x, t)}
    \cup {InLog("close", x, t, 1), InLog("undo", x, t, 1), InLog("reserve", x, t, 0)}
    : t \in shape[x].writes}
  \cup {Ending(kind, x) : kind \in {"completed", "aborting", "rolled back"}}

(* Whether somebody who knows all that stands there now may make the put. *)
May(p) ==
  CASE p.kind = "publish" -> MayPublish(p.of, p.table, p.part)
    [] p.kind = "reserve" -> MayReserve(p.of, p.table)
    [] p.kind = "close" -> MayClose(p.of, p.table)
    [] p.kind = "undo" -> MayUndo(p.of, p.table)
    [] p.kind = "completed" -> MayComplete(p.of)
    [] p.kind = "aborting" -> MayAbort(p.of)
    [] p.kind = "rolled back" -> MayEnd(p.of)

(* Whether the store has no such file yet. *)
IsFree(p) ==
  CASE p.kind \in Kinds -> p.slot = Len(log[p.table]) + 1
    [] p.kind \in {"completed", "aborting"} -> outcome[p.of] = "none"
    [] p.kind = "rolled back" -> p.of \notin ended

(* The file stands there. `clash` and `suspect` are for commits. *)
Lands(p, clash, suspect) ==
  /\ CASE p.kind \in Kinds ->
            /\ log' = [log EXCEPT ![p.table] = Append(@,
                 [kind |-> p.kind, of |-> p.of, part |-> p.part, clash |-> clash, suspect |-> suspect])]
            /\ UNCHANGED <<outcome, ended>>
       [] p.kind \in {"completed", "aborting"} ->
            outcome' = [outcome EXCEPT ![p.of] = p.kind] /\ UNCHANGED <<log, ended>>
       [] p.kind = "rolled back" ->
            ended' = ended \cup {p.of} /\ UNCHANGED <<log, outcome>>
  /\ UNCHANGED <<shape, line, owner, collected>>

Put(p, clash, suspect) == May(p) /\ IsFree(p) /\ Lands(p, clash, suspect) /\ UNCHANGED asleep

FallAsleep(s, p) ==
  /\ asleep[s] = <<>> /\ May(p) /\ IsFree(p)
  /\ asleep' = [asleep EXCEPT ![s] = <<p>>]
  /\ UNCHANGED <<shape, owner, files>>

WakeUp(s, clash, suspect) ==
  /\ asleep[s] # <<>>
  /\ IF IsFree(asleep[s][1]) THEN Lands(asleep[s][1], clash, suspect) ELSE UNCHANGED <<shape, owner, files>>
  /\ asleep' = [asleep EXCEPT ![s] = <<>>]

-----------------------------------------------------------------------------
(* Steps 2, 3, 5 and 6: the session of a transaction. *)

NoVersions == [t \in {} |-> 0]
Idle == [phase |-> "idle", sees |-> 0, known |-> 0, pin |-> NoVersions, base |-> NoVersions]
With(f, t, v) == [u \in DOMAIN f \cup {t} |-> IF u = t THEN v ELSE f[u]]
Know(x, knows) == owner' = [owner EXCEPT ![x] = knows] /\ UNCHANGED <<shape, files, asleep>>

(* Step 2: whoever may not help takes a shorter prefix. *)
Begin(x, n) ==
  /\ owner[x].phase = "idle" /\ n <= FinishedPrefix
  /\ Know(x, [owner[x] EXCEPT !.phase = "begun", !.sees = n])

(* Step 3: any version between the marks; which one, clocks say. *)
Pin(x, t, version) ==
  /\ owner[x].phase = "begun" /\ t \in Touched(x) \ DOMAIN owner[x].pin
  /\ version <= Len(log[t])
  /\ Has("MarksBoundPins") =>
       /\ \A i \in MarksUpTo(t, owner[x].sees) : i <= version
       /\ \A i \in MarksAfter(t, owner[x].sees) : i > version
  /\ Know(x, [owner[x] EXCEPT !.pin = With(@, t, version)])

IsPinned(x) == DOMAIN owner[x].pin = Touched(x)
IsListed(x) == DOMAIN owner[x].base = Touched(x)

(* Step 5a. *)
ReadTimeline(x) ==
  /\ owner[x].phase = "begun" /\ IsPinned(x) /\ shape[x].writes # {}
  /\ IF Has("TimelineFirst") THEN TRUE ELSE IsListed(x)
  /\ Has("ObeysAborts") => ~Aborted(x)
  /\ Know(x, [owner[x] EXCEPT !.phase = "read", !.known = Len(line),
                              !.base = IF Has("TimelineFirst") THEN NoVersions ELSE @])

(* Step 5b: others, or we ourselves by the puts above, have finished them. *)
IsHelped(x) ==
  \A n \in 1..owner[x].known :
    LET counted == shape[x].writes \cup (IF Has("HelpsReads") THEN shape[x].reads ELSE {})
    IN line[n].kind = "order" /\ shape[line[n].of].writes \cap counted # {} => IsFinishedEntry(n)

(* Step 5c: the version is the head of the listing, and all after the pin was checked. *)
List(x, t, version) ==
  /\ IF Has("TimelineFirst") THEN owner[x].phase = "read" /\ IsHelped(x)
     ELSE owner[x].phase = "begun" /\ IsPinned(x)
  /\ t \in Touched(x) \ DOMAIN owner[x].base
  /\ version = Len(log[t])
  /\ \A i \in (owner[x].pin[t] + 1)..version : x \notin log[t][i].clash
  /\ Know(x, [owner[x] EXCEPT !.base = With(@, t, version)])

(* Step 6: the number after those that it read is free. *)
Order(x) ==
  /\ owner[x].phase = "read" /\ IsListed(x) /\ IsHelped(x)
  /\ owner[x].known = Len(line)
  /\ line' = Append(line, [kind |-> "order", of |-> x])
  /\ owner' = [owner EXCEPT ![x].phase = "ordered"]
  /\ UNCHANGED <<shape, log, outcome, ended, collected, asleep>>

(* The number was taken: step 5 again. *)
LoseNumber(x) ==
  /\ owner[x].phase = "read" /\ owner[x].known < Len(line)
  /\ Know(x, [owner[x] EXCEPT !.phase = "begun", !.known = 0, !.base = NoVersions])

-----------------------------------------------------------------------------
(* Step 10, and others. *)

EndOthers(dead) ==
  /\ \A x \in dead : ~IsOrdered(x)
  /\ line' = Append(line, [kind |-> "abort", ends |-> dead])
  /\ UNCHANGED <<shape, log, outcome, ended, owner, collected, asleep>>

Collect(x) ==
  /\ x \notin collected
  /\ IF Has("AbortsFirst") THEN Aborted(x) ELSE ~IsOrdered(x)
  /\ collected' = collected \cup {x}
  /\ UNCHANGED <<shape, log, line, outcome, ended, owner, asleep>>

(* Mode `reserve`: between the fence and what takes it off no other client can write the table. *)
IsFenced(t) == \E x \in Transactions :
  IsOrdered(x) /\ t \in shape[x].reserves /\ OwnOf(x, t, "reserve") # {} /\ Parts(x, t) \cup Settlements(x, t) = {}

(* Mode `forbid`: nor from a pin that found it closed up to a commit that opens it. *)
IsClosed(t) == \E x \in Transactions :
  /\ t \in shape[x].closed \cap DOMAIN owner[x].pin
  /\ \A i \in DOMAIN log[t] :
       i > owner[x].pin[t] /\ log[t][i].kind = "publish" => t \notin shape[log[t][i].of].opens

(* Of a client without Lakestep. *)
Foreign(t, kind, clash, suspect) ==
  /\ kind \in {"append", "rewrite", "alter"}
  /\ Has("HeedsFence") => ~IsFenced(t) /\ ~IsClosed(t)
  /\ log' = [log EXCEPT ![t] = Append(@,
       [kind |-> kind, of |-> 0, part |-> 0, clash |-> clash, suspect |-> suspect])]
  /\ UNCHANGED <<shape, line, outcome, ended, owner, collected, asleep>>

-----------------------------------------------------------------------------
(* Guarantees. *)

Ordered == {x \in Transactions : IsOrdered(x)}
Completed == {x \in Ordered : outcome[x] = "completed"}
All(x, t) == {i \in DOMAIN log[t] : IsOf(log[t][i], x)}
AllOf(x, t, kind) == {i \in All(x, t) : log[t][i].kind = kind}

(* I1: completed means every part everywhere; rolled back means that nothing is left that was not undone. *)
AllOrNothing == \A x \in Ordered, t \in Tables :
  /\ x \in Completed /\ t \in shape[x].writes => {log[t][i].part : i \in AllOf(x, t, "publish")} = 1..LastPart(x, t)
  /\ x \in ended => \A i \in AllOf(x, t, "publish") : \E j \in AllOf(x, t, "undo") : i < j
  /\ \A i \in AllOf(x, t, "close") \cup AllOf(x, t, "undo") : \A j \in All(x, t) : j <= i

(* I2: one outcome, and nobody acts on another; one entry, and none for a transaction that others ended. *)
OneOutcome == \A x \in Transactions :
  /\ Cardinality(Numbers(x)) <= 1
  /\ IsOrdered(x) => ~Aborted(x)
  /\ outcome[x] # "aborting" =>
       x \notin ended /\ \A t \in Tables : AllOf(x, t, "close") \cup AllOf(x, t, "undo") = {}

(* I3: nothing twice, and no files lost. *)
NothingLostOrTwice ==
  /\ \A x \in Ordered, t \in Tables :
       /\ \A i, j \in AllOf(x, t, "publish") : log[t][i].part = log[t][j].part => i = j
       /\ Cardinality(AllOf(x, t, "close") \cup AllOf(x, t, "undo")) <= 1
  /\ Ordered \cap collected = {}

(* I4: what a session reads is a prefix: all of its entries, nothing of others; and there is such a version. *)
SnapshotsArePrefixes ==
  /\ \A x \in Transactions, t \in Tables : t \in DOMAIN owner[x].pin =>
       /\ \A i \in MarksUpTo(t, owner[x].sees) : i <= owner[x].pin[t]
       /\ \A i \in MarksAfter(t, owner[x].sees) : i > owner[x].pin[t]
  /\ \A t \in Tables, i, j \in UNION {DOMAIN log[u] : u \in Tables} :
       i < j /\ j <= Len(log[t]) /\ log[t][i].kind \in Kinds /\ log[t][j].kind \in Kinds
         => Number(log[t][i].of) <= Number(log[t][j].of)

(* I5: nothing between what it read and what it published conflicts. *)
FirstCommitterWins == \A x \in Completed : \A t \in shape[x].writes : \A i \in AllOf(x, t, "publish") :
  \A j \in (owner[x].pin[t] + 1)..(i - 1) : x \notin log[t][j].clash

(* I5a: SERIALIZABLE: it has read what entries before it wrote. *)
Serializable == \A x \in Completed : \A t \in shape[x].reads : \A y \in Completed :
  Number(y) < Number(x) =>
    \A i \in AllOf(y, t, "publish") : x \in log[t][i].clash => i <= owner[x].pin[t]

(* I5b: an entry aborts only over a foreign commit. *)
NoNeedlessAbort == \A x \in Ordered : outcome[x] = "aborting" =>
  \E t \in shape[x].writes, i \in UNION {DOMAIN log[u] : u \in Tables} :
    i \in After(x, t) /\ log[t][i].kind \notin Kinds /\ x \in log[t][i].suspect

(* I6: whoever comes next can go on with every entry that has no end; each put brings it nearer to it. *)
SomebodyCanFinish == \A x \in Ordered : IsFinished(x) \/ \E p \in PutsFor(x) : May(p) /\ IsFree(p)

(* I7: with at most one conflict-capable table, in one part, beside those of modes `reserve` and *)
(* `forbid`, none of them opened between two parts, nothing visible is undone. *)
NothingUndoneNeedlessly == \A x \in Ordered :
  LET open == shape[x].capable \ Guarded(x)
  IN Cardinality(open) <= 1 /\ shape[x].two \cap (open \cup shape[x].opens) = {} =>
       \A t \in Tables : AllOf(x, t, "undo") = {}

(* `forbid`: what is ordered over closed tables is committed, unless it opens one between two parts. *)
OrderedIsCommitted == \A x \in Ordered :
  shape[x].writes \subseteq shape[x].closed /\ shape[x].two \cap shape[x].opens = {} => outcome[x] # "aborting"
=============================================================================
