addSbtPlugin("com.simplytyped" % "sbt-antlr4" % "0.8.3")
addSbtPlugin("com.eed3si9n" % "sbt-assembly" % "2.3.1")
addSbtPlugin("org.scalameta" % "sbt-scalafmt" % "2.5.6")

// Reads compiled classes in Linkage.scala.
libraryDependencies += "org.ow2.asm" % "asm" % "9.8"
