"""Conditions become exceptions by their SQLSTATE, and keep all they know."""

import json
import pickle
import re
from pathlib import Path

import grpc
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import lakestep
from lakestep import _errors

CONDITIONS = json.loads(
    (Path(lakestep.__file__).parent / "lakestep-error-conditions.json").read_text()
)


@pytest.mark.parametrize(
    ("sql_state", "kind"),
    [
        ("40001", lakestep.ConflictError),
        ("08007", lakestep.StateUnknownError),
        ("25001", lakestep.TransactionStateError),
        ("25P01", lakestep.TransactionStateError),
        ("3B001", lakestep.TransactionStateError),
        ("0A000", lakestep.UnsupportedInTransactionError),
        ("XX001", lakestep.TimelineCorruptError),
        ("55000", lakestep.ConfigurationError),
        ("53100", lakestep.LakestepError),
    ],
)
def test_sql_state_chooses_the_class(sql_state, kind):
    raised = _errors._from_connect("m", errorClass="LAKESTEP_X", sql_state=sql_state)
    assert type(raised) is kind
    assert isinstance(raised, PySparkException)


def test_conditions_are_sorted_and_each_has_text_and_sql_state():
    assert list(CONDITIONS) == sorted(CONDITIONS)
    for name, condition in CONDITIONS.items():
        assert name.startswith("LAKESTEP_")
        assert condition["message"]
        assert re.fullmatch("[0-9A-Z]{5}", condition["sqlState"])


def test_error_raised_in_python_keeps_condition_parameters_and_text():
    error = _errors.error("LAKESTEP_VERSION_MISMATCH", jar="1.0.0", wheel="2.0.0")
    assert error.getCondition() == "LAKESTEP_VERSION_MISMATCH"
    assert error.getSqlState() == "55000"
    assert error.getMessageParameters() == {"jar": "1.0.0", "wheel": "2.0.0"}
    assert str(error).startswith("[LAKESTEP_VERSION_MISMATCH] ")
    assert str(error).endswith(" SQLSTATE: 55000")
    assert "<" not in str(error)


def test_error_survives_a_trip_to_another_process():
    error = _errors.error("LAKESTEP_VERSION_MISMATCH", jar="1.0.0", wheel="2.0.0")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.getSqlState() == error.getSqlState()
    assert copy.getMessageParameters() == error.getMessageParameters()


def of_connect(message="m", status=None, condition=None):
    kind = pytest.importorskip("pyspark.errors.exceptions.connect").SparkConnectGrpcException
    error = kind(message, errorClass=condition, messageParameters=condition and {})
    error._grpc_status_code = status
    return error


@pytest.mark.parametrize(
    ("failure", "is_lost"),
    [
        (lambda: Py4JError("An error occurred while calling o26.sql"), True),
        (lambda: ConnectionRefusedError(), True),
        (lambda: of_connect(status=grpc.StatusCode.UNAVAILABLE), True),
        (lambda: of_connect(status=grpc.StatusCode.CANCELLED), True),
        # As PySpark 4.0 says it.
        (lambda: of_connect("status = StatusCode.UNAVAILABLE"), True),
        (lambda: of_connect(condition="INVALID_HANDLE.SESSION_NOT_FOUND"), True),
        (lambda: PySparkException("m", "RESPONSE_ALREADY_RECEIVED", {}), True),
        (lambda: PySparkException("m", "RETRIES_EXCEEDED", {}), True),
        (lambda: of_connect(status=grpc.StatusCode.INTERNAL), False),
        (lambda: of_connect(condition="OPERATION_CANCELED"), False),
        (lambda: _errors.error("LAKESTEP_VERSION_MISMATCH", jar="1", wheel="2"), False),
        (lambda: ValueError("StatusCode.UNAVAILABLE"), False),
        (lambda: KeyboardInterrupt(), False),
    ],
)
def test_what_is_taken_for_a_lost_connection(failure, is_lost):
    assert _errors.is_lost(failure()) is is_lost
