package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.timeline.{Requested, TimelineView}

/** Step 2: which snapshot a transaction reads, and its REQUESTED file. */
private[commit] final class Begin(
    env: Environment,
    helping: Helping,
    names: => Names,
    late: LateNames) {
  import env.{timeline, clock, ids, observer}

  def apply(request: BeginRequest): BegunTransaction = {
    val now = clock.nowMs()
    if (request.readOnly) begun(request, read(), now, nextId())
    else {
      timeline.id
      written(request, now)
    }
  }

  private def read(): TimelineView =
    if (timeline.existingId.isEmpty) timeline.known
    else {
      val read = timeline.refresh()
      if (read.snapshot.names.unapplied.isEmpty) read
      else {
        names.look(read)
        read.merge(timeline.known)
      }
    }

  /**
   * Where all that is unfinished is about to end, the snapshot is known before it has: REQUESTED is
   * put meanwhile. If it turns out to be another one, nobody has begun with that file.
   */
  private def written(request: BeginRequest, now: Long): BegunTransaction = {
    var early = Option.empty[Requested]
    try {
      val id = nextId()
      val (_, view) = helping.all { seen =>
        if (request.asOf.isEmpty && seen.next > request.notBefore) {
          // Whether a batch is applied is known when all has ended.
          val expected = transaction(request.copy(batch = None), seen, now, id).requested
            .copy(snapshot = seen.next - 1, requestedAtMs = now)
          early = Some(expected)
          put(expected)
        }
      }
      // Who died late has left a wrong name, which nobody else would meet before a COMMIT over it.
      if (view.lastNames > 0) late.seldom()
      val txn = begun(request, view, now, id)
      if (early.contains(txn.requested)) txn
      else {
        val other = if (early.isEmpty) txn else txn.copy(id = nextId())
        put(other.requested)
        early.foreach(withdraw)
        other
      }
    } catch {
      case NonFatal(e) =>
        early.foreach(withdraw)
        throw e
    }
  }

  private def nextId() = s"t${ids.nextHex()}"

  private def put(requested: Requested): Unit = {
    observer.beforeRequested(requested.id)
    timeline.putRequested(requested)
    observer.requested(requested.id)
  }

  private def withdraw(requested: Requested): Unit =
    try timeline.deleteRequested(requested.id)
    catch { case NonFatal(_) => () }

  private def begun(
      request: BeginRequest,
      view: TimelineView,
      now: Long,
      id: String): BegunTransaction = {
    val past = request.asOf.map(AsOf.point(_, timeline, view.finished, now))
    if (past.isEmpty && view.finished < request.notBefore) throw request.behind(view)
    val txn = transaction(request, view, now, id)
    past.fold(txn)(p => txn.copy(snapshot = p.entry, base = p.base, past = past))
  }

  private def transaction(
      request: BeginRequest,
      view: TimelineView,
      now: Long,
      id: String): BegunTransaction = BegunTransaction(
    id,
    request.name,
    request.user,
    request.application,
    view.finished,
    view.snapshot,
    // A later commit of others may rest on an entry that is left out.
    view.unfinished.headOption.fold(now)(_.timeMs.min(now)),
    request.isolation,
    request.readOnly,
    request.batch,
    request.batch.flatMap(Batches.appliedAt(_, view)),
    request.batch.flatMap(key => view.batch(key.query)).map(_.batch),
    labels = request.labels
  )
}
