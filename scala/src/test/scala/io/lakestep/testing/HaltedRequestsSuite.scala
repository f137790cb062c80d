package io.lakestep.testing

import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.storage.LocalStore

/** On a local disk; tests/stores/test_s3.py does the same on S3. */
final class HaltedRequestsSuite extends AnyFunSuite {

  private val cases = Seq(
    ("commit", false, false, 60),
    ("rollback", true, false, 80),
    ("commit with fences", false, true, 65),
    ("rollback with fences", true, true, 80)
  )

  for ((kind, conflict, fences, fewest) <- cases)
    test(s"a client that halts at any request of a $kind leaves all or nothing") {
      val base = Files.createTempDirectory("halted").toRealPath()
      val store = new LocalStore(durable = false)
      val halts = HaltedRequests.run(store, s"file:$base", every = 1, conflict, fences)
      assert(halts >= fewest)
    }
}
