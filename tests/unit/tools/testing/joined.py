"""Definitions with all that a workspace can define beside plain views, and tests of them, for both ways to run them."""

from __future__ import annotations

SQL = """
CREATE STREAM clicks (
  user_id STRING, n INT, tags ARRAY<STRING>, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts - INTERVAL 1 MINUTE
);
CREATE STREAM payments (
  id BIGINT NOT NULL, who STRING, cents BIGINT, at TIMESTAMP NOT NULL, UNIQUE (id) WITHIN 1 DAY, WATERMARK FOR at AS at
);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, least INT, boss STRING);
CREATE TABLE prices (id STRING PRIMARY KEY, plan STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE TABLE paid PRIMARY KEY (who) AS SELECT who, cents, at FROM payments WHERE cents > 0;
CREATE TABLE payer_plans PRIMARY KEY (id) AS
  SELECT p.who AS id, u.plan AS plan, p.at AS at FROM payments p LEFT JOIN users u ON p.who = u.id;
CREATE STREAM planned AS SELECT c.*, u.plan FROM clicks c JOIN users u ON c.user_id = u.id;
CREATE STREAM tagged AS SELECT user_id, tag, ts FROM clicks LATERAL VIEW explode(tags) t AS tag WHERE n > 0;
CREATE STREAM some AS SELECT * FROM clicks TABLESAMPLE (50 PERCENT);
CREATE STREAM of_some_users AS SELECT * FROM clicks TABLESAMPLE (50 PERCENT) BY (user_id);
CREATE MATERIALIZED VIEW lefts AS SELECT u.plan, count(*) AS hits, sum(c.n) AS total
  FROM clicks c LEFT JOIN users u ON c.user_id = u.id GROUP BY u.plan, window(c.ts, '1 hour');
CREATE MATERIALIZED VIEW inners AS SELECT plan, count(*) AS hits FROM planned GROUP BY plan;
CREATE MATERIALIZED VIEW bosses AS SELECT b.plan, count(*) AS hits
  FROM clicks c JOIN users u ON c.user_id = u.id JOIN users b ON b.id = u.boss GROUP BY b.plan;
CREATE MATERIALIZED VIEW residuals AS SELECT u.plan, count(*) AS hits
  FROM clicks c LEFT JOIN users u ON c.user_id = u.id AND c.n >= u.least GROUP BY u.plan;
CREATE MATERIALIZED VIEW semis AS SELECT count(*) AS hits
  FROM clicks WHERE user_id IN (SELECT id FROM users WHERE plan = 'pro');
CREATE MATERIALIZED VIEW antis AS SELECT count(*) AS hits
  FROM clicks c WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.id = c.user_id);
CREATE MATERIALIZED VIEW timed AS SELECT p.plan, count(*) AS hits
  FROM clicks c LEFT JOIN prices FOR SYSTEM_TIME AS OF c.ts p ON c.user_id = p.id GROUP BY p.plan;
CREATE MATERIALIZED VIEW payers AS SELECT p.cents, count(*) AS hits
  FROM clicks c LEFT JOIN paid p ON c.user_id = p.who GROUP BY p.cents;
CREATE MATERIALIZED VIEW nested AS SELECT r.plan, count(*) AS hits
  FROM clicks c LEFT JOIN payer_plans r ON c.user_id = r.id GROUP BY r.plan;
CREATE MATERIALIZED VIEW own_log AS SELECT p.cents AS before, count(*) AS n
  FROM payments q LEFT JOIN paid p ON q.who = p.who GROUP BY p.cents;
CREATE MATERIALIZED VIEW by_plan AS SELECT plan, count(*) AS people, max(least) AS most FROM users GROUP BY plan;
CREATE MATERIALIZED VIEW by_payer_plan AS SELECT plan, count(*) AS people FROM payer_plans GROUP BY plan;
CREATE MATERIALIZED VIEW tags AS SELECT tag, count(*) AS n FROM tagged GROUP BY tag;
CREATE MATERIALIZED VIEW sampled AS SELECT count(*) AS hits FROM some;
CREATE MATERIALIZED VIEW sampled_users AS SELECT user_id, count(*) AS hits FROM of_some_users GROUP BY user_id;
CREATE VIEW shares AS SELECT i.plan, i.hits, p.people, u.boss
  FROM inners i JOIN by_plan p ON i.plan = p.plan JOIN users u ON u.id = 'ann';
CREATE VIEW top_shares AS SELECT plan FROM shares WHERE hits > 1;
"""
GIVEN = """
    clicks:
      - {user_id: ann, n: 1, tags: [a, b], ts: 2026-03-01T10:00:00Z}
      - {user_id: bob, n: 2, tags: [a], ts: 2026-03-01T10:00:01Z}
      - {user_id: eve, n: 3, ts: 2026-03-01T10:00:02Z}
      - {n: 4, ts: 2026-03-01T10:00:03Z}
    users:
      - {id: ann, plan: free}
      - {id: bob, plan: pro, least: 3, boss: ann}
      - {id: ann, plan: pro, least: 1, boss: bob}
      - {id: eve, plan: pro}
      - {id: eve, _deleted: true}
    prices:
      - {id: ann, plan: old, at: 2026-03-01T09:00:00Z}
      - {id: ann, plan: new, at: 2026-03-01T11:00:00Z}
      - {id: bob, plan: late, at: 2026-03-01T11:00:00Z}
    payments:
      - {id: 1, who: ann, cents: 5, at: 2026-03-01T09:00:00Z}
      - {id: 1, who: ann, cents: 6, at: 2026-03-01T09:00:00Z}
      - {id: 2, who: bob, cents: 0, at: 2026-03-01T09:00:00Z}
      - {id: 3, who: bob, cents: 7, at: 2026-03-01T09:00:00Z}
"""
ROWS = {
    "lefts": "[{plan: pro, hits: 2, total: 3}, {plan: null, hits: 2, total: 7}]",
    "inners": "[{plan: pro, hits: 2}]",
    "bosses": "[{plan: pro, hits: 2}]",
    "residuals": "[{plan: pro, hits: 1}, {plan: null, hits: 3}]",
    "semis": "[{hits: 2}]",
    "antis": "[{hits: 2}]",
    "timed": "[{plan: old, hits: 1}, {plan: null, hits: 3}]",
    "payers": "[{cents: 5, hits: 1}, {cents: 7, hits: 1}, {cents: null, hits: 2}]",
    "nested": "[{plan: pro, hits: 2}, {plan: null, hits: 2}]",
    "own_log": "[{before: null, n: 3}]",  # an event sees the commits before its own
    "by_plan": "[{plan: pro, people: 2, most: 3}]",
    "by_payer_plan": "[{plan: pro, people: 2}]",
    "users": "[{id: ann, plan: pro, least: 1}, {id: bob, boss: ann}]",
    "paid": "[{who: ann, cents: 5}, {who: bob, cents: 7}]",
    "tags": "[{tag: a, n: 2}, {tag: b, n: 1}]",
    "sampled": "[{hits: 4}]",
    "sampled_users": "[{user_id: eve, hits: 2}]",
    "shares": "[{plan: pro, hits: 2, people: 2, boss: bob}]",
    "top_shares": "[{plan: pro}]",
}
ONLY_SPARK = ("nested",)  # without Spark it is skipped
# The table changes between the events.
CHANGING = """
- name: commits that the file gives
  given:
    clicks:
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}
      - commit:
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}
    users:
      - {id: ann, plan: free}
      - commit:
      - {id: ann, plan: pro}
  ask: inners
  expect: [{plan: free, hits: 1}, {plan: pro, hits: 2}]
- name: a list that begins with the end of a commit
  given:
    clicks:
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}
      - commit:
      - commit:
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}
    users:
      - commit:
      - {id: ann, plan: free}
      - commit:
      - {id: ann, plan: pro}
  ask: lefts
  expect: [{plan: null, hits: 1}, {plan: pro, hits: 1}]
- name: the order of arrival
  given:
    clicks:
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}
      - {user_id: ann, n: 1, ts: 2026-03-01T10:20:00Z}
      - {user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z, _arrived: 2026-03-01T10:10:00Z}
    users:
      - {id: ann, plan: free}
      - {id: ann, plan: pro, _arrived: 2026-03-01T10:10:00Z}
  ask: inners
  expect: [{plan: free, hits: 1}, {plan: pro, hits: 2}]
"""


def file_of(*views: str) -> str:
    """A test file with a test of each of these views, over the same events."""
    given = f"&given{GIVEN}"
    return "".join(
        f"- name: {view}\n  given: {given if at == 0 else '*given'}\n  ask: {view}\n"
        f"  expect: {{rows: {ROWS[view]}, dead_letters: [duplicate]}}\n"
        for at, view in enumerate(views)
    )
