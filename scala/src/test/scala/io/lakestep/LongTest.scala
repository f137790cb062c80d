package io.lakestep

import org.scalatest.Tag

/** A test for `make test-long` only; its small version has no tag. */
object LongTest extends Tag("io.lakestep.LongTest")
