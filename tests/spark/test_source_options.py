"""Options of sources: compared without case, and none that loses records in silence."""

from __future__ import annotations

import pytest

from mullion.errors import CheckError, MullionError
from mullion.spark.options import IN_SESSION, KNOWN, RULES, check_session, checked_options, reads_alike

LOSING = [
    ("csv", "MODE", "DROPMALFORMED"),
    ("json", "Mode", "failfast"),
    ("csv", "columnNameOfCorruptRecord", "broken"),
    ("json", "badRecordsPath", "/tmp"),
    ("csv", "enforceSchema", "True"),
    ("csv", "unescapedQuoteHandling", "skip_value"),
    ("parquet", "ignoreCorruptFiles", "TRUE"),
    ("orc", "IGNOREMISSINGFILES", "true"),
    ("parquet", "fileNameOnly", "true"),
    ("json", "latestFirst", "true"),
    ("json", "maxFileAge", "1d"),
    ("kafka", "failOnDataLoss", "false"),
]


@pytest.mark.parametrize(("format_", "name", "value"), LOSING)
def test_what_loses_records_in_silence_is_refused(format_: str, name: str, value: str) -> None:
    with pytest.raises(CheckError) as error:
        checked_options(format_, [("path", "x")] * (format_ != "kafka") + [(name, value)])
    assert name in str(error.value) and "leave the option out" in str(error.value)


def test_values_that_lose_nothing_are_fine() -> None:
    for name, rule in RULES.items():
        for value in rule.allowed:
            for format_ in [f for f in KNOWN if name in KNOWN[f]]:
                assert checked_options(format_, [(name.upper(), value.upper())]) == ((name, value.upper()),)


def test_names_are_compared_without_case() -> None:
    assert checked_options("csv", [("PATH", "x"), ("Header", "true")]) == (("path", "x"), ("header", "true"))
    with pytest.raises(CheckError, match="written twice"):
        checked_options("csv", [("path", "x"), ("header", "true"), ("HEADER", "false")])
    kafka = [("kafka.sasl.JAAS", "x"), ("Subscribe", "t")]
    assert checked_options("kafka", kafka) == (("kafka.sasl.JAAS", "x"), ("subscribe", "t"))


def test_an_option_that_nobody_reads_is_refused() -> None:
    with pytest.raises(CheckError, match="unknown option 'headr' of format csv") as error:
        checked_options("csv", [("headr", "true")])
    assert "did you mean 'header'?" in str(error.value)
    with pytest.raises(CheckError, match="unknown option 'header' of format parquet"):
        checked_options("parquet", [("header", "true")])
    assert checked_options("parquet", [("fs.s3a.endpoint", "x")]) == (("fs.s3a.endpoint", "x"),)


def test_settings_of_the_session() -> None:
    check_session({"spark.sql.files.ignoreCorruptFiles": "false", "spark.x": "y"})
    for name in IN_SESSION:
        with pytest.raises(MullionError, match=name):
            check_session({name: "TRUE"})


def test_what_changes_how_a_file_is_read() -> None:
    assert reads_alike([("path", "x"), ("maxfilespertrigger", "1")])
    assert not reads_alike([("path", "x"), ("datetimerebasemode", "LEGACY")])
    assert not reads_alike([("path", "x"), ("fs.s3a.endpoint", "x")])
