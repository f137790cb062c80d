------------------------------- MODULE Traces -------------------------------
(* Histories of the real code, each held against the steps of the protocol. *)
EXTENDS Protocol, TLC

CONSTANT Histories

VARIABLES
  history,       \* which
  at             \* the event that comes next

Now == Histories[history]
Names == DOMAIN Now.shapes

Init ==
  /\ history \in DOMAIN Histories
  /\ at = 1
  /\ shape = Now.shapes
  /\ log = [t \in Now.tables |-> <<>>]
  /\ line = <<>>
  /\ outcome = [x \in Names |-> "none"]
  /\ ended = {}
  /\ owner = [x \in Names |-> Idle]
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

IsOver == at > Len(Now.events)
Event == Happens(Now.events[at])

Next ==
  /\ ~IsOver
  /\ UNCHANGED history
  /\ IF ENABLED Event THEN Event /\ at' = at + 1
     ELSE /\ PrintT(<<"rejected", Now.seed, at, Now.events[at].do>>)
          /\ at' = Len(Now.events) + 1
          /\ UNCHANGED vars
==============================================================================
