package io.lakestep.delta

object DeltaStateReader
