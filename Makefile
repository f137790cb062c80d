# Each target calls what anyone could type. Stamps stand for the real inputs: nothing is built twice.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VERSION := $(shell cat VERSION)
include versions.properties

# The PySpark to work with. Each has an environment of its own: `make setup PYSPARK=4.1.4`.
DEFAULT := $(firstword $($(firstword $(lines)).pyspark))
PYSPARK ?= $(DEFAULT)
VENV := .venv$(if $(filter-out $(DEFAULT),$(PYSPARK)),-$(PYSPARK))
BIN := $(VENV)/bin
# Spark's Python workers must be of the driver's version.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python

# Its line, 4.1 for 4.1.4: what is built for it is in a folder of its own.
space := $(subst ,, )
LINE := $(subst $(space),.,$(wordlist 1,2,$(subst ., ,$(PYSPARK))))
BUILT := target/$(LINE)
SBT := project/sbt -Dline=$(LINE)
jar_of = target/$1/scala-$(scala)/lakestep-spark_$1_$(scala)-$(VERSION).jar
JAR := $(call jar_of,$(LINE))
TEST_JAR := $(BUILT)/lakestep-tests.jar
WHEEL_NAME := lakestep-$(VERSION)-py3-none-any.whl
# To work with it has the JAR of one line; that of `make wheel` has all.
WHEEL := $(BUILT)/$(WHEEL_NAME)
RELEASE := dist/$(WHEEL_NAME)

# An older line that `make test` looks at in turn, by the count of landings.
OLDER := $(wordlist 2,9,$(lines))
IN_TURN := $(lastword $($(word $(shell echo $$(($$(cat tests/slice) % $(words $(OLDER)) + 1))),$(OLDER)).pyspark))

BUILD_SOURCES := LICENSE VERSION versions.properties build.sbt project/build.properties project/plugins.sbt project/repositories
# Folders are named too: a file that goes away changes its folder.
JAR_SOURCES := $(BUILD_SOURCES) $(shell find scala/src/main) $(wildcard sql-grammar/*.g4)
TEST_JAR_SOURCES := $(shell find scala/src/test -type f)
WHEEL_SOURCES := LICENSE versions.properties python/pyproject.toml python/hatch_build.py python/README.md \
  $(shell find python/src -not -path '*/__pycache__*')

PYTHON_FOLDERS := python tests benchmarks docs
REPORTS := target/test-reports
# What drivers run on, and the model checker.
ARCHIVE := $(VENV)/share/lakestep/spark-classes.jsa
DRIVERS := $(VENV)/installed $(TEST_JAR) $(ARCHIVE) $(BUILT)/s3-jars $(BUILT)/hdfs-jars $(BUILT)/model-jars
# Sparks that Lakestep does not support: too old, for Scala 2.12 and 2.13, and too new.
OTHERS := target/others/spark-3.5.9 target/others/spark-4.3.0 target/others/old-spark-jars
# Two files of tests at a time; a file shares its sessions and drivers.
BY_FILE := -n 2 --dist loadfile --no-loadscope-reorder

# Scala suites that start neither Spark nor HDFS.
PURE := 'testOnly * -- -l io.lakestep.NeedsSpark'
FORMAT := scalafmtCheckAll scalafmtSbtCheck

# Suites that see what is otherwise in another line.
OF_LINE := 'testOnly *.CommandCatalogueSuite *.TransactionGuardSuite *.GrammarSuite *.ExtensionOrderSuite \
  *.RuntimeContractSuite *.BaseTransactionBackstopSuite'

.PHONY: setup quick test test-all test-older test-line test-lines test-pyspark test-scala test-python test-connect test-long \
  check check-python check-model demo bench bench-other-stores bench-quick flames wheel docs

setup: $(VENV)/installed

wheel: $(RELEASE)

define jar_rule
$(call jar_of,$1): $(JAR_SOURCES)
	project/sbt -Dline=$1 assembly deltaJars s3Jars oldS3Jars hdfsJars modelJars
	touch $$@
endef
$(foreach line,$(lines),$(eval $(call jar_rule,$(line))))

# Holds what the tests and the benchmarks put into a driver: observers, a counting file system.
$(TEST_JAR): $(JAR) $(TEST_JAR_SOURCES)
	$(SBT) Test/packageBin
	touch $@

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Lakestep needs Python 3.10 or newer; name one by PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(WHEEL): $(JAR) $(WHEEL_SOURCES) $(VENV)/created
	LAKESTEP_LINES=$(LINE) $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(@D) ./python
	touch $@

$(RELEASE): $(foreach line,$(lines),$(call jar_of,$(line))) $(WHEEL_SOURCES) $(VENV)/created
	LAKESTEP_LINES='$(lines)' $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(@D) ./python
	touch $@

$(BUILT)/delta-jars: | $(JAR)
	test -d $@ || $(SBT) deltaJars

# For the drivers that work on S3.
$(BUILT)/s3-jars: | $(JAR)
	test -d $@ || $(SBT) s3Jars oldS3Jars

# For the cluster of HDFS.
$(BUILT)/hdfs-jars: | $(JAR)
	test -d $@ || $(SBT) hdfsJars

# The model checker of tests/model.
$(BUILT)/model-jars:
	test -d $@ || $(SBT) modelJars

# delta-spark asks for a PySpark that is not the newest, so it comes by itself.
$(VENV)/installed: $(WHEEL) | $(BUILT)/delta-jars
	$(BIN)/python -m pip install --quiet '$(WHEEL)[test,demo,check]' 'pyspark[connect]==$(PYSPARK)' importlib-metadata
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall $(WHEEL) delta-spark==$(delta)
	rm -rf $(VENV)/share/lakestep/delta-jars
	mkdir -p $(VENV)/share/lakestep
	cp -R $(BUILT)/delta-jars $(VENV)/share/lakestep/delta-jars
	touch $@

# Classes that the JVMs of tests need not load and check again each time.
$(ARCHIVE): $(VENV)/installed tests/support/fast_start.py
	$(BIN)/python tests/support/fast_start.py

# A little of everything, in minutes.
quick: $(VENV)/installed $(TEST_JAR) $(ARCHIVE)
	$(MAKE) -j 2 --output-sync=target quick-scala quick-python

quick-scala:
	$(SBT) $(FORMAT) $(PURE)

quick-python: check-python
	LAKESTEP_TEST_SLICE=all $(BIN)/python -m pytest @tests/smoke.txt

# All that sbt builds is there before two of it run side by side.
test: $(DRIVERS)
	rm -rf $(REPORTS)
	$(MAKE) -j 2 test-scala test-python
	$(MAKE) -j 2 test-connect test-older
	$(BIN)/python tests/slowest.py $(REPORTS)

# All slices of the large matrices.
test-all:
	LAKESTEP_TEST_SLICE=all $(MAKE) test

test-scala:
	$(SBT) test

test-older:
	$(MAKE) test-line PYSPARK=$(IN_TURN)

# What can be otherwise in another line, in minutes.
test-line: $(VENV)/installed $(TEST_JAR) $(ARCHIVE)
	$(SBT) $(OF_LINE)
	LAKESTEP_TEST_SLICE=all $(BIN)/python -m pytest @tests/smoke.txt --junitxml=$(REPORTS)/pytest-$(PYSPARK).xml

# The wheel to publish, on the lowest and the newest PySpark of each line; hours.
test-lines: $(RELEASE) $(OTHERS)
	for pyspark in $(foreach line,$(lines),$($(line).pyspark)); do $(MAKE) test-pyspark PYSPARK=$$pyspark WHEEL=$<; done
	$(BIN)/python -m pytest tests/package/test_other_sparks.py

test-pyspark: $(DRIVERS)
	$(SBT) $(OF_LINE)
	$(BIN)/python -m pytest @tests/lines.txt -m 'not long' $(BY_FILE) --junitxml=$(REPORTS)/pytest-$(PYSPARK).xml
	$(MAKE) test-connect

test-python: $(DRIVERS)
	$(BIN)/python -m pytest tests -m 'not long' $(BY_FILE) --junitxml=$(REPORTS)/pytest.xml

# The Python package and the writers on Spark Connect, whose server takes a port.
ON_CONNECT := tests/package/test_python_api.py tests/statements/test_statements.py tests/statements/test_assertions.py
test-connect:
	LAKESTEP_TEST_API=connect $(BIN)/python -m pytest $(ON_CONNECT) -m 'not classic and not long' \
	  --junitxml=$(REPORTS)/pytest-connect-$(PYSPARK).xml

# A second checker of histories, beside tests/support/anomalies.py.
target/adya/bin/adya:
	cargo install adya --version 0.1.0 --no-default-features --locked --root target/adya

# An older JAR, for clients of two versions side by side.
target/old/bc86795:
	rm -rf $@ $@.part && mkdir -p $@.part
	git archive bc86795 | tar -x -C $@.part
	cd $@.part && project/sbt assembly Test/packageBin
	mv $@.part $@

test-long: target/old/bc86795 $(RELEASE) $(OTHERS) $(DRIVERS) target/adya/bin/adya
	LAKESTEP_TEST_LONG=1 $(SBT) test
	LAKESTEP_TEST_LONG=1 $(BIN)/python -m pytest tests -m long --durations=10
	LAKESTEP_TEST_FAST_PATHS=off LAKESTEP_TEST_COMPILED=1 $(BIN)/python -m pytest tests -m 'not long' $(BY_FILE)

# The protocol's model at its large bounds, and broken variants of it that must fail.
check-model: $(VENV)/created $(BUILT)/model-jars
	$(BIN)/python tests/model/check.py

# The site of docs/ in target/docs; links and headings are checked. Needs no JDK.
docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/docs: $(VENV)/created python/pyproject.toml
	$(BIN)/python -m pip install --quiet $$(sed -n '/^docs = \[/,/^\]/s/^  "\(.*\)",$$/\1/p' python/pyproject.toml)
	touch $@

demo: $(VENV)/installed $(TEST_JAR)
	$(BIN)/python benchmarks/demo.py

bench: $(VENV)/installed $(TEST_JAR) $(BUILT)/s3-jars
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/neighbours.py
	$(BIN)/python benchmarks/past.py
	$(BIN)/python benchmarks/unsummed.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/stores.py
	$(BIN)/python benchmarks/contention.py
	$(BIN)/python benchmarks/summary.py

bench-other-stores: $(VENV)/installed $(TEST_JAR) $(BUILT)/s3-jars $(BUILT)/hdfs-jars
	$(BIN)/python benchmarks/other_stores.py

bench-quick: $(VENV)/installed $(TEST_JAR)
	$(BIN)/python benchmarks/overhead.py --quick
	$(BIN)/python benchmarks/growth.py --quick

target/others/spark-%:
	rm -rf $@ $@.part
	$(PYTHON) -m venv $@.part
	$@.part/bin/python -m pip install --quiet pyspark==$*
	mv $@.part $@

target/others/old-spark-jars:
	project/sbt oldSparkJars
	mkdir -p $(@D) && cp -R target/$(firstword $(lines))/old-spark-jars $@

# The profiler of benchmarks/flames.py.
$(BUILT)/profiler-jars:
	$(SBT) profilerJars

flames: $(VENV)/installed $(BUILT)/profiler-jars
	$(BIN)/python benchmarks/flames.py

check: check-python
	$(SBT) $(FORMAT)

check-python: $(VENV)/installed
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	cd python && ../$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/mypy --config-file benchmarks/mypy.ini
