"""The tables and SQL statements of a state in a database, for SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco.exceptions import require

if TYPE_CHECKING:
    import sqlalchemy as sa

_TABLES = """
CREATE TABLE IF NOT EXISTS {p}meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);

CREATE TABLE IF NOT EXISTS {p}claims (
  deployment TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, attempt INTEGER NOT NULL,
  until DOUBLE PRECISION NOT NULL, at DOUBLE PRECISION NOT NULL, answer TEXT,
  PRIMARY KEY (deployment, id)
);
CREATE INDEX IF NOT EXISTS {p}claims_at ON {p}claims (at);

CREATE TABLE IF NOT EXISTS {p}intents (
  id TEXT PRIMARY KEY, deployment TEXT NOT NULL, source TEXT NOT NULL, tenant TEXT NOT NULL,
  request TEXT NOT NULL, attempt INTEGER NOT NULL, day INTEGER NOT NULL,
  at DOUBLE PRECISION NOT NULL, granted INTEGER NOT NULL, paid DOUBLE PRECISION NOT NULL,
  unknown DOUBLE PRECISION NOT NULL, is_open INTEGER NOT NULL, is_capped INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS {p}intents_request ON {p}intents (deployment, request);
CREATE INDEX IF NOT EXISTS {p}intents_day ON {p}intents (day, source);

CREATE TABLE IF NOT EXISTS {p}spent (
  source TEXT NOT NULL, tenant TEXT NOT NULL, day INTEGER NOT NULL,
  paid DOUBLE PRECISION NOT NULL, unknown DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (source, tenant, day)
);

CREATE TABLE IF NOT EXISTS {p}caps (
  source TEXT NOT NULL, day INTEGER NOT NULL, counted DOUBLE PRECISION NOT NULL,
  granted INTEGER NOT NULL, PRIMARY KEY (source, day)
);

CREATE TABLE IF NOT EXISTS {p}tries (source TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL);

CREATE TABLE IF NOT EXISTS {p}failing (source TEXT PRIMARY KEY);

CREATE TABLE IF NOT EXISTS {p}kept (
  name TEXT PRIMARY KEY, text TEXT NOT NULL, version INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS {p}marks (
  deployment TEXT NOT NULL, id TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, model TEXT NOT NULL,
  label TEXT NOT NULL, accepted INTEGER NOT NULL, reason TEXT NOT NULL,
  exit_stage INTEGER NOT NULL, PRIMARY KEY (deployment, id)
);
CREATE INDEX IF NOT EXISTS {p}marks_at ON {p}marks (deployment, at);

CREATE TABLE IF NOT EXISTS {p}labels (
  deployment TEXT NOT NULL, id TEXT NOT NULL, label TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (deployment, id)
);
"""

_OWN = "deployment = CAST(:deployment AS TEXT)"

# How many rows the remaining money is enough for, counted as in `granted_rows`.
_ROOM = "(({limit} - cap.counted) / {price} + 1e-6)"
_GRANTED = """
  CASE WHEN {room} < 1 THEN 0 WHEN {room} >= {rows} THEN {rows}
  ELSE CAST({whole} AS INTEGER) END
"""

# Whether a call may be made: no other attempt has the request or has bought from the source, and
# the state has the expected incarnation. The claim is locked, so that another attempt begins before
# or after this, but not in between; if the attempt is part of a condition on the claim, PostgreSQL
# locks only claims of other attempts.
_FREE = r"""
  COALESCE((SELECT attempt FROM {p}claims WHERE {own} AND id = :request {share}), :attempt)
    = :attempt
  AND NOT EXISTS (
    SELECT 1 FROM {p}intents AS other WHERE {own} AND other.request = :request
    AND other.source = :source AND other.attempt <> :attempt AND other.paid + other.unknown > 0
  )
  AND (CAST(:incarnation AS TEXT) IS NULL OR EXISTS (
    SELECT 1 FROM {p}kept WHERE name = 'incarnation\:' || CAST(:deployment AS TEXT)
    AND text = CAST(:incarnation AS TEXT)
  ))
"""

# The account of a source for a day with a limit. It starts with what was reserved or spent while
# there was no limit, which counts towards the limit and is also refunded to it.
_OPEN_DAY = """
  INSERT INTO {p}caps (source, day, counted, granted)
  SELECT :source, {day}, COALESCE(SUM(paid + unknown), 0.0), 0
  FROM {p}intents WHERE source = :source AND day = {day}
"""
_ADOPT = "UPDATE {p}intents SET is_capped = 1 WHERE source = :source AND day = {day}"
_HAS_DAY = "EXISTS (SELECT 1 FROM {p}caps WHERE source = :source AND day = {day})"

_CAP = """
  UPDATE {p}caps AS cap SET granted = {granted_cap}, counted = cap.counted + {granted_cap} * {price}
  WHERE source = :source AND day = {day} AND {free}
  RETURNING granted, day
"""

_INTENT = """
  INSERT INTO {p}intents (id, deployment, source, tenant, request, attempt, day, at, granted, paid,
    unknown, is_open, is_capped)
"""
_INTENT_CAPPED = (
    _INTENT
    + """
  SELECT :id, {deployment}, :source, :tenant, :request, :attempt, {capped_day}, {now},
    {capped_granted}, 0, {capped_granted} * {price}, 1, 1
"""
)

_END_CAP = """
  UPDATE {p}caps AS cap
  SET counted = CASE WHEN cap.counted - (i.paid + i.unknown) + {new} > 0
    THEN cap.counted - (i.paid + i.unknown) + {new} ELSE 0 END
  FROM {p}intents AS i
  WHERE i.id = :id AND i.is_capped = 1 AND i.paid + i.unknown <> {new}
    AND cap.source = i.source AND cap.day = i.day
"""
_END = """
  UPDATE {p}intents SET paid = :paid, unknown = :unknown, is_open = 0 WHERE id = :id
"""

_MARK_COLUMNS = "m.id, m.at, m.model, m.label, m.accepted, m.reason, m.exit_stage, l.label AS truth"
_OF_MARKS = """
  FROM {p}marks AS m LEFT JOIN {p}labels AS l ON l.deployment = m.deployment AND l.id = m.id
"""

_SHARED = {
    "version": "SELECT value FROM {p}meta WHERE name = 'version'",
    "set_version": """
      INSERT INTO {p}meta (name, value) VALUES ('version', :version) ON CONFLICT DO NOTHING
    """,
    "claim": """
      INSERT INTO {p}claims AS c (deployment, id, body, attempt, until, at)
      VALUES ({deployment}, :id, :body, 1, {now} + :lease, {now})
      ON CONFLICT (deployment, id) DO UPDATE
      SET attempt = c.attempt + 1, until = {now} + :lease, at = {now}
      WHERE c.answer IS NULL AND c.body = excluded.body AND c.until <= {now}
      RETURNING attempt
    """,
    # Tests whether the state can be written to: inserts and deletes an id that no request can have.
    "probe": """
      INSERT INTO {p}claims (deployment, id, body, attempt, until, at)
      VALUES ({deployment}, '', '', 0, 0, 0) ON CONFLICT DO NOTHING
    """,
    "unprobe": "DELETE FROM {p}claims WHERE {own} AND id = ''",
    "claimed": "SELECT body, answer FROM {p}claims WHERE {own} AND id = :id",
    "renew": """
      UPDATE {p}claims SET until = {now} + :lease
      WHERE {own} AND id = :id AND attempt = :attempt AND answer IS NULL RETURNING id
    """,
    "answer": """
      UPDATE {p}claims SET answer = :text WHERE {own} AND id = :id AND answer IS NULL
      RETURNING id
    """,
    "lapse": """
      UPDATE {p}claims SET until = 0
      WHERE {own} AND id = :id AND attempt = :attempt AND answer IS NULL
    """,
    "drop": """
      DELETE FROM {p}claims WHERE {own} AND id = :id AND attempt = :attempt AND answer IS NULL
      AND NOT EXISTS (
        SELECT 1 FROM {p}intents WHERE {own} AND request = :id AND paid + unknown > 0
      )
    """,
    "begin": _INTENT
    + """
      SELECT :id, {deployment}, :source, :tenant, :request, :attempt, {day}, {now}, {rows}, 0,
        {rows} * {price}, 1, 0
      WHERE {free} RETURNING granted
    """,
    "has_day": f"SELECT {_HAS_DAY}",
    "open_day": f"{_OPEN_DAY} ON CONFLICT DO NOTHING",
    "adopt": _ADOPT,
    "may_try": """
      INSERT INTO {p}tries AS t (source, at) VALUES (:source, {now})
      ON CONFLICT (source) DO UPDATE SET at = {now} WHERE t.at <= {now} - :pause RETURNING source
    """,
    "is_failing": """
      INSERT INTO {p}failing (source) VALUES (:source) ON CONFLICT DO NOTHING
    """,
    "is_well": "DELETE FROM {p}failing WHERE source = :source",
    "failing": "SELECT source FROM {p}failing",
    "spend": """
      SELECT source, tenant, day, SUM(paid), SUM(unknown) FROM (
        SELECT source, tenant, day, paid, unknown FROM {p}spent
        UNION ALL SELECT source, tenant, day, paid, unknown FROM {p}intents
      ) AS every WHERE CAST(:day AS INTEGER) IS NULL OR day = :day
      GROUP BY source, tenant, day ORDER BY day, source, tenant
    """,
    "open": """
      SELECT id, source, tenant, request, at, granted, unknown, day FROM {p}intents
      WHERE is_open = 1 AND (CAST(:day AS INTEGER) IS NULL OR day = :day) ORDER BY at, id
    """,
    "unknown": """
      SELECT COALESCE(SUM(unknown), 0.0) FROM (
        SELECT source, day, unknown FROM {p}spent
        UNION ALL SELECT source, day, unknown FROM {p}intents
      ) AS every WHERE source = :source AND day = :day
    """,
    "settle_cap": """
      UPDATE {p}caps SET counted = (
        SELECT CASE WHEN counted > SUM(unknown) * (1 - {share})
          THEN counted - SUM(unknown) * (1 - {share}) ELSE 0 END
        FROM {p}intents AS i WHERE i.source = :source AND i.day = :day AND i.is_capped = 1
      )
      WHERE source = :source AND day = :day AND EXISTS (
        SELECT 1 FROM {p}intents AS i
        WHERE i.source = :source AND i.day = :day AND i.is_capped = 1
      )
    """,
    "settle_intents": """
      UPDATE {p}intents SET paid = paid + unknown * {share}, unknown = 0, is_open = 0
      WHERE source = :source AND day = :day AND (unknown > 0 OR is_open = 1)
    """,
    "settle_spent": """
      UPDATE {p}spent SET paid = paid + unknown * {share}, unknown = 0
      WHERE source = :source AND day = :day
    """,
    "keep": """
      INSERT INTO {p}kept AS k (name, text, version) VALUES (:name, :text, 1)
      ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = k.version + 1
    """,
    "keep_first": """
      INSERT INTO {p}kept (name, text, version) VALUES (:name, :text, 1)
      ON CONFLICT DO NOTHING RETURNING version
    """,
    "keep_if": """
      UPDATE {p}kept SET text = :text, version = version + 1
      WHERE name = :name AND version = :was RETURNING version
    """,
    "kept": "SELECT text, version FROM {p}kept WHERE name = :name",
    # Locks a value until the transaction ends.
    "hold_value": """
      INSERT INTO {p}kept AS k (name, text, version) VALUES (:name, '', 0)
      ON CONFLICT (name) DO UPDATE SET version = k.version
      RETURNING text, {moment} AS now, ({server}) AS server,
        (SELECT i.text FROM {p}kept AS i WHERE i.name = :incarnation) AS incarnation
    """,
    "mark": """
      INSERT INTO {p}marks (deployment, id, at, model, label, accepted, reason, exit_stage)
      VALUES ({deployment}, :id, :at, :model, :label, :accepted, :reason, :exit_stage)
      ON CONFLICT (deployment, id) DO UPDATE SET at = excluded.at, model = excluded.model,
        label = excluded.label, accepted = excluded.accepted, reason = excluded.reason,
        exit_stage = excluded.exit_stage
    """,
    "marked": f"""
      SELECT {_MARK_COLUMNS} {_OF_MARKS} WHERE m.deployment = {{deployment}} AND m.id IN :ids
    """,
    "due": f"""
      SELECT {_MARK_COLUMNS} {_OF_MARKS} WHERE m.deployment = {{deployment}} AND m.at < :before
      AND m.at >= :since
      AND (CAST(:model AS TEXT) IS NULL OR m.model = :model) ORDER BY m.at, m.id
    """,
    "label": """
      INSERT INTO {p}labels AS l (deployment, id, label, at)
      VALUES ({deployment}, :id, :label, {now})
      ON CONFLICT (deployment, id) DO UPDATE SET label = excluded.label, at = excluded.at
      WHERE l.label <> excluded.label RETURNING id
    """,
    "forget_labels": """
      DELETE FROM {p}labels WHERE {own}
      AND id IN (SELECT id FROM {p}marks WHERE {own} AND at < :before)
    """,
    "forget_marks": "DELETE FROM {p}marks WHERE {own} AND at < :before",
    "tidy_claims": "DELETE FROM {p}claims WHERE at < {now} - :keep",
    "tidy_labels": """
      DELETE FROM {p}labels WHERE at < {now} - :unseen
      AND NOT EXISTS (
        SELECT 1 FROM {p}marks AS m
        WHERE m.deployment = {p}labels.deployment AND m.id = {p}labels.id
      )
    """,
    "tidy_caps": "DELETE FROM {p}caps WHERE day < {day} - 8",
}

_OLD = "WHERE is_open = 0 AND at < {now} - :keep"
_ADD_UP = """
  INSERT INTO {p}spent AS s (source, tenant, day, paid, unknown)
  SELECT source, tenant, day, SUM(paid), SUM(unknown) FROM {gone}
  GROUP BY source, tenant, day
  ON CONFLICT (source, tenant, day) DO UPDATE
  SET paid = s.paid + excluded.paid, unknown = s.unknown + excluded.unknown
"""

# PostgreSQL does in one statement what SQLite does in two of one transaction.
_SQLITE = {
    "server": "SELECT ''",
    "cap": _CAP,
    "begin_capped": _INTENT_CAPPED,
    "end_cap": _END_CAP,
    "end": _END,
    "hold": "UPDATE {p}caps SET counted = counted WHERE source = :source AND day = :day",
    "add_up": _ADD_UP.replace("{gone}", "{p}intents " + _OLD),
    "tidy_intents": "DELETE FROM {p}intents " + _OLD,
}
_ALONE = "LOCK TABLE {p}intents IN EXCLUSIVE MODE"
_SERVER = """CAST(pg_postmaster_start_time() AS TEXT)
        || COALESCE(CAST(inet_server_addr() AS TEXT), '')"""
_POSTGRES = {
    "server": f"SELECT {_SERVER}",
    "begin_capped": f"""
      WITH cap AS ({_CAP}), made AS ({_INTENT_CAPPED} FROM cap WHERE cap.granted > 0)
      SELECT (SELECT granted FROM cap) AS granted, {_HAS_DAY} AS has_day
    """,
    # Calls that end in the meantime wait, and then find their intents adopted.
    "alone": _ALONE,
    "hold": _ALONE,
    "end": f"WITH cap AS ({_END_CAP}) {_END}",
    "tidy_intents": f"WITH gone AS (DELETE FROM {{p}}intents {_OLD} RETURNING *) "
    + _ADD_UP.replace("{gone}", "gone"),
}
_NOW = "CAST(:now AS DOUBLE PRECISION)"
_SERVERS_NOW = (  # the same for all processes, whatever their clocks say
    f"COALESCE({_NOW}, CAST(EXTRACT(EPOCH FROM STATEMENT_TIMESTAMP()) AS DOUBLE PRECISION))"
)
_SERVERS_MOMENT = _SERVERS_NOW.replace("STATEMENT", "CLOCK")  # also after waiting for a lock


def tables(prefix: str) -> list[str]:
    """Return the statements that create the tables."""
    return [part for part in _TABLES.format(p=prefix).split(";") if part.strip()]


def statements(prefix: str, deployment: str, *, is_postgres: bool) -> dict[str, sa.TextClause]:
    """Return all statements by name, with the deployment filled in."""
    sqlalchemy = require("sqlalchemy", "live")
    now = _SERVERS_NOW if is_postgres else _NOW
    whole = "FLOOR({0})" if is_postgres else "{0}"  # a cast rounds there, and cuts off here
    parts = {
        "p": prefix,
        "now": now,
        "moment": _SERVERS_MOMENT if is_postgres else _NOW,
        "server": _SERVER if is_postgres else "''",
        "day": f"CAST({whole.format(f'{now} / 86400')} AS INTEGER)",
        "new": "(CAST(:paid AS DOUBLE PRECISION) + CAST(:unknown AS DOUBLE PRECISION))",
        "rows": "CAST(:rows AS INTEGER)",
        "price": "CAST(:price AS DOUBLE PRECISION)",
        "share": "CAST(:share AS DOUBLE PRECISION)",
        "limit": "CAST(:limit AS DOUBLE PRECISION)",
        "capped_day": "cap.day" if is_postgres else ":day",
        "capped_granted": "cap.granted" if is_postgres else ":granted",
        "deployment": "CAST(:deployment AS TEXT)",
        "own": _OWN,
        "free": _FREE.format(p=prefix, own=_OWN, share="FOR SHARE" if is_postgres else ""),
    }
    room = _ROOM.format(**parts)
    parts["granted_cap"] = _GRANTED.format(room=room, whole=whole.format(room), **parts)
    found = {
        name: sqlalchemy.text(text.format(**parts))
        for name, text in (_SHARED | (_POSTGRES if is_postgres else _SQLITE)).items()
    }
    for name, statement in found.items():
        if ":deployment" in statement.text:
            found[name] = statement.bindparams(deployment=deployment)
    found["marked"] = found["marked"].bindparams(sqlalchemy.bindparam("ids", expanding=True))
    return found
