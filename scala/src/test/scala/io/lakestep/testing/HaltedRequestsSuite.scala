package io.lakestep.testing

import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.storage.LocalStore

/** On a local disk; tests/test_s3.py does the same on S3. */
final class HaltedRequestsSuite extends AnyFunSuite {

  for ((kind, conflict, fewest) <- Seq(("commit", false, 60), ("rollback", true, 80)))
    test(s"a client that halts at any request of a $kind leaves all or nothing") {
      val base = Files.createTempDirectory("halted").toRealPath()
      val halts =
        HaltedRequests.run(new LocalStore(durable = false), s"file:$base", every = 1, conflict)
      assert(halts >= fewest)
    }
}
