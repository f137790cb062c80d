# Each target calls what anyone could type. Stamps stand for the real inputs: nothing is built twice.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VERSION := $(shell cat VERSION)
include versions.properties
JAR := target/scala-$(scala)/lakestep-spark_$(sparkLine)_$(scala)-$(VERSION).jar
TEST_JAR := target/lakestep-tests.jar
WHEEL := dist/lakestep-$(VERSION)-py3-none-any.whl
BIN := .venv/bin
# Spark's Python workers must be of the driver's version.
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python

BUILD_SOURCES := LICENSE VERSION versions.properties build.sbt project/build.properties project/plugins.sbt project/repositories
# Folders are named too: a file that goes away changes its folder.
JAR_SOURCES := $(BUILD_SOURCES) $(shell find scala/src/main) $(wildcard sql-grammar/*.g4)
TEST_JAR_SOURCES := $(shell find scala/src/test -type f)
WHEEL_SOURCES := LICENSE versions.properties python/pyproject.toml python/hatch_build.py python/README.md \
  $(shell find python/src -not -path '*/__pycache__*')

PYTHON_FOLDERS := python tests benchmarks docs
REPORTS := target/test-reports
# What drivers run on, and the model checker.
DRIVERS := .venv/installed $(TEST_JAR) target/spark-classes.jsa target/s3-jars target/hdfs-jars target/model-jars
# Two files of tests at a time; a file shares its sessions and drivers.
BY_FILE := -n 2 --dist loadfile --no-loadscope-reorder

# Scala suites that start neither Spark nor HDFS.
PURE := 'testOnly * -- -l io.lakestep.NeedsSpark'
FORMAT := scalafmtCheckAll scalafmtSbtCheck

.PHONY: setup quick test test-all test-scala test-python test-connect test-long \
  check check-python check-model demo bench bench-quick flames wheel docs

setup: .venv/installed

wheel: $(WHEEL)

$(JAR): $(JAR_SOURCES)
	project/sbt assembly deltaJars s3Jars hdfsJars modelJars
	touch $@

# Holds what the tests and the benchmarks put into a driver: observers, a counting file system.
$(TEST_JAR): $(JAR) $(TEST_JAR_SOURCES)
	project/sbt Test/packageBin
	touch $@

.venv/created:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Lakestep needs Python 3.10 or newer; name one by PYTHON=")'
	$(PYTHON) -m venv .venv
	touch $@

$(WHEEL): $(JAR) $(WHEEL_SOURCES) .venv/created
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./python
	touch $@

target/delta-jars: | $(JAR)
	test -d $@ || project/sbt deltaJars

# For the drivers that work on S3.
target/s3-jars: | $(JAR)
	test -d $@ || project/sbt s3Jars

# For the cluster of HDFS.
target/hdfs-jars: | $(JAR)
	test -d $@ || project/sbt hdfsJars

# The model checker of tests/model.
target/model-jars:
	test -d $@ || project/sbt modelJars

.venv/installed: $(WHEEL) | target/delta-jars
	$(BIN)/python -m pip install --quiet '$(WHEEL)[test,demo,check]'
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall $(WHEEL)
	rm -rf .venv/share/lakestep/delta-jars
	mkdir -p .venv/share/lakestep
	cp -R target/delta-jars .venv/share/lakestep/delta-jars
	touch $@

# Classes that the JVMs of tests need not load and check again each time.
target/spark-classes.jsa: .venv/installed tests/support/fast_start.py
	$(BIN)/python tests/support/fast_start.py

# A little of everything, in minutes.
quick: .venv/installed $(TEST_JAR) target/spark-classes.jsa
	$(MAKE) -j 2 --output-sync=target quick-scala quick-python

quick-scala:
	project/sbt $(FORMAT) $(PURE)

quick-python: check-python
	LAKESTEP_TEST_SLICE=all $(BIN)/python -m pytest @tests/smoke.txt

# All that sbt builds is there before two of it run side by side.
test: $(DRIVERS)
	rm -rf $(REPORTS)
	$(MAKE) -j 2 test-scala test-python
	$(MAKE) test-connect
	$(BIN)/python tests/slowest.py $(REPORTS)

# All quarters of the large matrices.
test-all:
	LAKESTEP_TEST_SLICE=all $(MAKE) test

test-scala:
	project/sbt test

test-python: $(DRIVERS)
	$(BIN)/python -m pytest tests -m 'not long' $(BY_FILE) --junitxml=$(REPORTS)/pytest.xml

# The Python package on Spark Connect, whose server takes a port.
test-connect:
	LAKESTEP_TEST_API=connect $(BIN)/python -m pytest tests/package/test_python_api.py -m 'not classic' \
	  --junitxml=$(REPORTS)/pytest-connect.xml

# A second checker of histories, beside tests/support/anomalies.py.
target/adya/bin/adya:
	cargo install adya --version 0.1.0 --no-default-features --locked --root target/adya

# An older JAR, for clients of two versions side by side.
target/old/bc86795:
	rm -rf $@ $@.part && mkdir -p $@.part
	git archive bc86795 | tar -x -C $@.part
	cd $@.part && project/sbt assembly Test/packageBin
	mv $@.part $@

test-long: target/old/bc86795 $(DRIVERS) target/adya/bin/adya
	LAKESTEP_TEST_LONG=1 project/sbt test
	LAKESTEP_TEST_LONG=1 $(BIN)/python -m pytest tests -m long --durations=10
	LAKESTEP_TEST_FAST_PATHS=off LAKESTEP_TEST_COMPILED=1 $(BIN)/python -m pytest tests -m 'not long' $(BY_FILE)

# The protocol's model at its large bounds, and broken variants of it that must fail.
check-model: .venv/created target/model-jars
	$(BIN)/python tests/model/check.py

# The site of docs/ in target/docs; links and headings are checked. Needs no JDK.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/docs: .venv/created python/pyproject.toml
	$(BIN)/python -m pip install --quiet $$(sed -n '/^docs = \[/,/^\]/s/^  "\(.*\)",$$/\1/p' python/pyproject.toml)
	touch $@

demo: .venv/installed $(TEST_JAR)
	$(BIN)/python benchmarks/demo.py

bench: .venv/installed $(TEST_JAR)
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/neighbours.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/summary.py

bench-quick: .venv/installed $(TEST_JAR)
	$(BIN)/python benchmarks/overhead.py --quick
	$(BIN)/python benchmarks/growth.py --quick

# The profiler of benchmarks/flames.py.
target/profiler-jars:
	project/sbt profilerJars

flames: .venv/installed target/profiler-jars
	$(BIN)/python benchmarks/flames.py

check: check-python
	project/sbt $(FORMAT)

check-python: .venv/installed
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	cd python && ../$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/mypy --config-file benchmarks/mypy.ini
