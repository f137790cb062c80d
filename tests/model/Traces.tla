------------------------------- MODULE Traces -------------------------------
(* Histories of the real code, each held against the steps of the protocol. *)
EXTENDS Protocol, TLC

CONSTANT Histories

VARIABLES
  seed,          \* of the history
  events         \* what is still to happen in it

Begins(h) ==
  /\ seed = h.seed
  /\ events = h.events
  /\ shape = h.shapes
  /\ log = [t \in h.tables |-> <<>>]
  /\ outcome = [x \in DOMAIN h.shapes |-> "none"]
  /\ owner = [x \in DOMAIN h.shapes |-> Idle]

Init ==
  /\ \E i \in DOMAIN Histories : Begins(Histories[i])
  /\ line = <<>>
  /\ ended = {}
  /\ collected = {}
  /\ asleep = <<>>

Happens(e) ==
  CASE e.do = "begin" -> Begin(e.of, e.n)
    [] e.do = "pin" -> Pin(e.of, e.table, e.n)
    [] e.do = "read" -> ReadTimeline(e.of)
    [] e.do = "list" -> List(e.of, e.table, e.n)
    [] e.do = "order" -> Order(e.of)
    [] e.do = "abort" -> EndOthers(e.ends)
    [] e.do = "collect" -> Collect(e.of)
    [] e.do = "foreign" -> Foreign(e.table, e.kind, e.clash, e.suspect)
    [] e.do = "put" -> Put(InLog(e.kind, e.of, e.table, e.n), e.clash, e.suspect)
    [] e.do = "end" -> Put(Ending(e.kind, e.of), {}, {})
    [] e.do = "over" -> (\A x \in Ordered : IsFinished(x)) /\ UNCHANGED vars

(* Whether a file says of tables what their logs say: which are closed, and where commits stand. *)
IsTrue(e) ==
  CASE e.do = "order" -> e.closed = shape[e.of].closed
    [] e.do = "end" /\ e.kind = "completed" ->
         e.slots = UNION {{<<t, i>> : i \in All(e.of, t)} : t \in Tables}
    [] OTHER -> TRUE

Event == IsTrue(Head(events)) /\ Happens(Head(events))

What(e) == IF IsTrue(e) THEN e.do ELSE "what is not so in " \o e.do

Next ==
  /\ events # <<>>
  /\ UNCHANGED seed
  /\ IF ENABLED Event THEN Event /\ events' = Tail(events)
     ELSE /\ PrintT(<<"rejected", seed, Len(events), What(Head(events))>>)
          /\ events' = <<>>
          /\ UNCHANGED vars
==============================================================================
