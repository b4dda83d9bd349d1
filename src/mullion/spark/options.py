"""The options of sources, and what Mullion thinks of each (docs/decisions/0026).

Names are compared without case, as Spark does, and kept in lower case. An option that makes Spark lose records without
a word is refused; so is one that no reader of the format knows, because Spark would ignore it without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from typing import NamedTuple

from mullion.errors import CheckError, MullionError, Place, closest


class AllowedValues(NamedTuple):
    """The only values that an option may have, in lower case, and why."""

    allowed: tuple[str, ...]
    why: str


_COUNTED = "records that do not parse are counted and kept in _malformed"
_ONLY_FALSE = ("false",)

RULES: Mapping[str, AllowedValues] = {
    "mode": AllowedValues(("permissive",), _COUNTED),
    "columnnameofcorruptrecord": AllowedValues((), _COUNTED),
    "badrecordspath": AllowedValues((), _COUNTED),
    "singlevariantcolumn": AllowedValues((), "a record must have the stream's columns"),
    "enforceschema": AllowedValues(_ONLY_FALSE, "the names in the header decide which column is which"),
    "unescapedquotehandling": AllowedValues(
        ("stop_at_closing_quote", "back_to_delimiter", "stop_at_delimiter"), "a value would be lost without a word"
    ),
    "ignorecorruptfiles": AllowedValues(_ONLY_FALSE, "the events of a whole file would be lost without a word"),
    "ignoremissingfiles": AllowedValues(_ONLY_FALSE, "the events of a whole file would be lost without a word"),
    "filenameonly": AllowedValues(
        _ONLY_FALSE, "of two files with one name in two directories the second would not be read"
    ),
    "latestfirst": AllowedValues(_ONLY_FALSE, "what the newest files hold would make the events of all others late"),
    "maxfileage": AllowedValues((), "files that are old when they come would not be read, without a word"),
    "failondataloss": AllowedValues(("true",), "offsets that Kafka has dropped would be skipped without a word"),
}
"""Options that could lose something in silence. `allowed` is empty where no value will do."""

_ANY_FILE = """path pathglobfilter recursivefilelookup modifiedbefore modifiedafter compression
    ignorecorruptfiles ignoremissingfiles maxfilespertrigger maxbytespertrigger maxcachedfiles discardcachedinputratio
    latestfirst filenameonly maxfileage cleansource sourcearchivedir badrecordspath basepath"""
_ANY_TEXT = """charset encoding columnnameofcorruptrecord mode multiline linesep locale timezone samplingratio
    dateformat timeformat timestampformat timestampntzformat enabledatetimeparsingfallback singlevariantcolumn"""
_OF_KAFKA = """assign subscribe subscribepattern startingtimestamp startingoffsetsbytimestamp
    startingoffsetsbytimestampstrategy startingoffsets endingtimestamp endingoffsetsbytimestamp endingoffsets
    failondataloss kafkaconsumer.polltimeoutms fetchoffset.numretries fetchoffset.retryintervalms maxoffsetspertrigger
    minoffsetspertrigger maxtriggerdelay minpartitions maxrecordsperpartition groupidprefix includeheaders"""
_OF_FORMAT = {
    "csv": f"""{_ANY_FILE} {_ANY_TEXT} chartoescapequoteescaping codec columnpruning comment delimiter emptyvalue
        enforceschema escape escapequotes extension header ignoreleadingwhitespace ignoretrailingwhitespace inferschema
        inputbuffersize maxcharspercolumn maxcolumns nanvalue negativeinf nullvalue positiveinf preferdate quote
        quoteall sep unescapedquotehandling""",
    "json": f"""{_ANY_FILE} {_ANY_TEXT} allowbackslashescapinganycharacter allowcomments allownonnumericnumbers
        allownumericleadingzeros allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames dropfieldifallnull
        explodeembeddedarray ignorenullfields infertimestamp prefersdecimal pretty primitivesasstring sortkeys
        useunsaferow writenonasciicharacterascodepoint""",
    "parquet": f"{_ANY_FILE} datetimerebasemode int96rebasemode mergeschema",
    "orc": f"{_ANY_FILE} mergeschema",
    "text": f"{_ANY_FILE} encoding linesep wholetext",
    "kafka": _OF_KAFKA,
    "rate": "rowspersecond rampuptime numpartitions",
    "rate-micro-batch": "rowsperbatch numpartitions starttimestamp advancemillisperbatch",
    "socket": "host port includetimestamp",
}
KNOWN = {format_: frozenset(names.split()) for format_, names in _OF_FORMAT.items()}
"""The options that the readers of a format know; other formats may have any."""

IN_SESSION = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
"""Settings of Spark that do to all sources what the options of these names do to one."""


def checked_options(
    format_: str, written: Iterable[tuple[str, str]], places: Iterable[Place] = ()
) -> tuple[tuple[str, str], ...]:
    """The options with their names in lower case; refuses what would lose records in silence, and unknown names.
    `places`: where each of them stands, if they were written."""
    options: dict[str, str] = {}
    for (name, value), place in zip(written, chain(places, repeat(None)), strict=False):
        key = _key(name)
        if key in options:
            raise CheckError(
                f"the option '{name}' is written twice", place, hint="the names of options are compared without case"
            )
        options[key] = value
        rule = RULES.get(key)
        if rule is not None and value.strip().lower() not in rule.allowed:
            shown = f"option {name} '{value}'" if rule.allowed else f"option '{name}'"
            raise CheckError(f"{shown} is not allowed: {rule.why}", place, hint="leave the option out")
        known = KNOWN.get(format_)
        # A name with a dot is a setting of the file system or of the format's library.
        if known is not None and key not in known and "." not in key:
            hint = closest(key, known) or f"format {format_} has no option like it"
            raise CheckError(f"unknown option '{name}' of format {format_}", place, hint=hint)
    return tuple(options.items())


def _key(name: str) -> str:
    """Settings of Kafka's own keep their spelling, which means something there."""
    return name if name.lower().startswith("kafka.") else name.lower()


def check_session(settings: Mapping[str, str]) -> None:
    """Refuse settings of Spark that lose files in silence."""
    for name in IN_SESSION:
        if settings.get(name, "false").strip().lower() != "false":
            why = RULES[name.rpartition(".")[2].lower()].why
            raise MullionError(f"the setting {name}={settings[name]} is not allowed: {why}", hint="leave it out")


_CHOOSING = """path pathglobfilter recursivefilelookup maxfilespertrigger maxbytespertrigger maxcachedfiles
    discardcachedinputratio cleansource sourcearchivedir ignorecorruptfiles ignoremissingfiles latestfirst
    filenameonly"""
READ_ALIKE = frozenset(_CHOOSING.split())
"""Options that choose files but change nothing of what is read of one."""


def reads_alike(options: Iterable[tuple[str, str]]) -> bool:
    """Whether a reader that knows no options reads a file as Spark does with these."""
    return all(name in READ_ALIKE for name, _ in options)
